"""Has calls that wait for work or for an item wait for 10 ms, so that a run of Schemathesis has an end."""

import re

import schemathesis

WAITING = {"/v1/queue.lease", "/v1/item.wait"}
DURATION = re.compile(r"^([0-9.]+(d|h|m|s|ms|us))+$")


@schemathesis.hook
def before_call(context, case, kwargs):
    if case.operation.path in WAITING and isinstance(case.body, dict):
        timeout = case.body.get("request_timeout")
        if timeout is None or isinstance(timeout, str) and DURATION.match(timeout):
            case.body["request_timeout"] = "10ms"
