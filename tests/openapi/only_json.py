"""The OpenAPI document without protobuf, for generators that take one media type per body.

python only_json.py <openapi.json >only_json.json
"""

import json
import sys


def only_json(value):
    if isinstance(value, dict):
        return {key: only_json(inner) for key, inner in value.items() if key != "application/protobuf"}
    if isinstance(value, list):
        return [only_json(inner) for inner in value]
    return value


json.dump(only_json(json.load(sys.stdin)), sys.stdout)
