"""The generated client walks through the calls of a producer, a worker and an operator.

python python_client.py URL
"""

import base64
import datetime
import sys

from windlass_client import Client
from windlass_client import models as m
from windlass_client.api.crons import crons_create, crons_info, crons_list, crons_pause
from windlass_client.api.group import group_create, group_info, group_start
from windlass_client.api.groups import groups_list
from windlass_client.api.item import item_cancel, item_explain, item_get, item_wait
from windlass_client.api.queue import (
    queue_block,
    queue_clear,
    queue_complete,
    queue_extend,
    queue_lease,
    queue_permits,
    queue_produce,
    queue_retry,
    queue_stats,
    queue_unblock,
)
from windlass_client.api.queues import queues_create, queues_info, queues_list, queues_update
from windlass_client.api.rules import rules_list
from windlass_client.api.storage import storageitems_list, storageunclaimed_list

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)
calls = 0


def call(operation, body):
    """The reply of a call that succeeds."""
    global calls
    calls += 1
    reply = operation.sync(client=client, body=body)
    assert reply is not None and not isinstance(reply, m.ErrorReply), (operation.__name__, reply)
    return reply


def refused(operation, body):
    """The error of a call that does not."""
    global calls
    calls += 1
    reply = operation.sync(client=client, body=body)
    assert isinstance(reply, m.ErrorReply), (operation.__name__, reply)
    return reply.error


def queues():
    settings = m.RetryPolicyChange(strategy=m.RetryPolicyChangeStrategy.FIXED, initial="1ms")
    made = call(queues_create, m.CreateQueueRequest(queue="mail", partitions=2, retry=settings, max_attempts=3))
    assert made.queue.max_attempts == 3 and made.queue.retry.initial == "1ms"
    assert call(queues_update, m.UpdateQueueRequest(queue="mail", max_attempts=2)).queue.max_attempts == 2
    assert [queue.queue for queue in call(queues_list, m.ListQueuesRequest()).queues] == ["mail"]
    assert call(queues_info, m.QueueInfoRequest(queue="mail")).queue.queue == "mail"
    assert refused(queues_create, m.CreateQueueRequest(queue="mail")).code == "already_exists"
    assert refused(queues_info, m.QueueInfoRequest(queue="nosuch")).code == "not_found"


def items():
    payloads = [
        m.NewItem(json={"to": "ada"}, kind="welcome"),
        m.NewItem(utf8="plain", priority=1),
        m.NewItem(bytes_=base64.b64encode(b"\x00\xff").decode(), priority=2),
    ]
    produced = call(queue_produce, m.ProduceRequest(queue="mail", items=payloads)).items
    assert [item.state for item in produced] == ["waiting"] * 3
    tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    later = call(queue_produce, m.ProduceRequest(queue="mail", items=[m.NewItem(json=None, enqueue_at=tomorrow)])).items[0]
    assert later.state == "scheduled"
    assert call(item_get, m.GetItemRequest(id=later.id)).item.enqueue_at > tomorrow - datetime.timedelta(seconds=1)
    assert call(item_cancel, m.CancelItemRequest(id=later.id)).item.state == "cancelled"
    call(item_explain, m.ExplainItemRequest(id=produced[0].id))

    lease = m.LeaseRequest(queue="mail", client_id="python", batch_size=10, request_timeout="1s")
    leased = []
    while len(leased) < 3:
        leased += call(queue_lease, lease).items
    by_id = {item.id: item for item in leased}
    first = by_id[produced[0].id]
    assert first.json == {"to": "ada"} and first.kind == "welcome"
    assert by_id[produced[1].id].utf8 == "plain"
    assert base64.b64decode(by_id[produced[2].id].bytes_) == b"\x00\xff"
    assert len(call(queue_permits, m.ListPermitsRequest(queue="mail")).permits) == 3
    held = [m.Held(id=item.id, permit=item.permit) for item in leased]
    assert len(call(queue_extend, m.ExtendRequest(queue="mail", items=held)).items) == 3
    done = m.Completion(id=first.id, permit=first.permit, result=m.Payload(json={"sent": True}))
    assert call(queue_complete, m.CompleteRequest(queue="mail", items=[done])).completed == 1
    assert call(item_wait, m.WaitItemRequest(id=first.id)).item.result.json == {"sent": True}
    again = call(queue_complete, m.CompleteRequest(queue="mail", items=[done]))
    assert again.completed == 0 and again.failed[0].code == "lease_lost"
    failed = [m.Retry(id=item.id, permit=item.permit, dead=True) for item in leased if item.id != first.id]
    call(queue_retry, m.RetryRequest(queue="mail", items=failed))


def crons():
    made = m.CreateCronRequest(cron="nightly", queue="mail", schedule="0 3 * * *", item=m.CronItem(json={}))
    assert call(crons_create, made).cron.last_at is None
    (listed,) = call(crons_list, m.ListCronsRequest()).crons
    assert listed.last_at is None and listed.next_at > datetime.datetime.now(datetime.timezone.utc)
    assert len(call(crons_info, m.CronInfoRequest(cron="nightly")).cron.next_times) == 10
    assert call(crons_pause, m.PauseCronRequest(cron="nightly")).cron.paused


def groups():
    members = [m.NewItem(json=1), m.NewItem(json=2)]
    end = m.EndItem(queue="mail", json="done")
    call(group_create, m.CreateGroupRequest(queue="mail", group="album", items=members, end=end))
    assert call(group_start, m.StartGroupRequest(queue="mail", group="album")).group.state == "started"
    assert call(group_info, m.GroupInfoRequest(queue="mail", group="album")).group.members.waiting == 2
    assert [group.group for group in call(groups_list, m.ListGroupsRequest(queue="mail")).groups] == ["album"]


def operators():
    call(queue_block, m.BlockQueueRequest(queue="mail", kind="welcome", reason="a bug"))
    assert call(rules_list, m.ListRulesRequest()).rules[0].reason == "a bug"
    call(queue_unblock, m.UnblockQueueRequest(queue="mail", kind="welcome"))
    stats = call(queue_stats, m.QueueStatsRequest(queue="mail"))
    assert stats.counts.waiting == 2
    lists = [m.ListItemsRequest(queue="mail", partition=partition.partition) for partition in stats.partitions]
    assert sum(len(call(storageitems_list, partition).items) for partition in lists) == 2
    assert call(storageunclaimed_list, m.ListUnclaimedRequest()).partitions == []
    call(queue_clear, m.ClearQueueRequest(queue="mail", waiting=True))


for part in [queues, items, crons, groups, operators]:
    part()
print(f"ok: {calls} calls of the client in Python")
