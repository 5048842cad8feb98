//! From 2 to 5 to 1 partitions under load, with addresses, groups and idempotency keys in use: everybody writes down what was
//! asked and told, and a checker goes over it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;
use windlass_core::id::ItemId;
use windlass_core::refusal::Refusal;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CreateGroup, NewItem};
use windlass_engine::{Engine, EngineError, ProducedItem};

use super::addresses::at;
use super::groups::{end, group};
use crate::world::{World, completion, item, items, lease, queue_name};

on_every_store!(two_to_five_to_one_under_load_breaks_no_promise);

/// Fewer than there are producers and workers together, so that everybody gets in each other's way.
const ADDRESSES: usize = 12;
const CALLS: usize = 40;
const GROUPS: usize = 25;
const MEMBERS: usize = 4;

#[derive(Debug, Default)]
struct History {
    order: AtomicU64,
    calls: AtomicUsize,
    over: AtomicBool,
    produced: Mutex<Vec<ByAddress>>,
    /// Members and items without a key: nothing may have kept them from being done.
    plain: Mutex<Vec<ItemId>>,
    groups: Mutex<BTreeMap<String, Group>>,
    done: Mutex<Vec<Done>>,
}

/// One item of a call that named an address.
#[derive(Debug)]
struct ByAddress {
    address: usize,
    begin: u64,
    end: u64,
    /// Made, or whose the address is.
    told: Result<ItemId, ItemId>,
}

#[derive(Debug, Default)]
struct Group {
    members: Vec<ItemId>,
    cancelled: bool,
}

#[derive(Debug)]
struct Done {
    id: ItemId,
    body: String,
    leased: u64,
    /// When its completion was asked for and told.
    begin: u64,
    end: u64,
}

impl History {
    fn tick(&self) -> u64 {
        self.order.fetch_add(1, Ordering::SeqCst)
    }

    fn called(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
    }

    /// Unless somebody has come back before: who failed makes no more of them.
    async fn has_seen(&self, calls: usize, clients: &[JoinHandle<()>]) {
        while self.calls.load(Ordering::SeqCst) < calls && !clients.iter().any(JoinHandle::is_finished) {
            tokio::task::yield_now().await;
        }
    }
}

type Told = Vec<Result<ProducedItem, EngineError>>;

/// Sends the call twice, which comes to the same.
async fn twice(engine: &Engine, queue: &QueueName, key: &str, items: Vec<NewItem>) -> Told {
    let first = engine.produce_once(queue, key.into(), items.clone()).await.expect("judged").results;
    let again = engine.produce_once(queue, key.into(), items).await.expect("judged").results;
    let ids = |told: &Told| -> Vec<Result<ItemId, ItemId>> { told.iter().map(whose).collect() };
    assert_eq!(ids(&again), ids(&first), "{key} was carried out twice");
    first
}

fn whose(told: &Result<ProducedItem, EngineError>) -> Result<ItemId, ItemId> {
    match told {
        Ok(made) => Ok(made.id),
        Err(EngineError::DuplicateAddress { id }) => Err(*id),
        Err(error) => panic!("{error}"),
    }
}

async fn produce_many(engine: Engine, queue: QueueName, history: Arc<History>, producer: usize) {
    for call in 0..CALLS {
        let chosen: Vec<usize> = (0..6).map(|index| (producer + call + 2 * index) % ADDRESSES).collect();
        let wanted = chosen.iter().map(|address| at(&format!("a{address}"))).chain(items(1)).collect();
        let begin = history.tick();
        let told = if call % 2 == 0 {
            twice(&engine, &queue, &format!("{producer} {call}"), wanted).await
        } else {
            engine.produce(&queue, wanted).await.expect("judged").results
        };
        let end = history.tick();
        let (addressed, plain) = told.split_at(chosen.len());
        history
            .plain
            .lock()
            .expect("sound")
            .extend(plain.iter().map(|made| whose(made).expect("it has no key")));
        let told = chosen.into_iter().zip(addressed);
        let told = told.map(|(address, told)| ByAddress { address, begin, end, told: whose(told) });
        history.produced.lock().expect("sound").extend(told);
        history.called();
    }
}

async fn make_groups(engine: Engine, queue: QueueName, history: Arc<History>, maker: usize) {
    let name = |number: usize| format!("g{maker}-{number}");
    let long = name(GROUPS);
    create_group(&engine, &queue, &history, &long, maker).await;
    for number in 0..GROUPS {
        let name = name(number);
        create_group(&engine, &queue, &history, &name, maker).await;
        add_members(&engine, &queue, &history, &name).await;
        // One that is there from the beginning, wherever its name is at home by now.
        engine.group(&queue, &long.as_str().into()).await.expect("it is known");
        let again = engine.create_group(&queue, group(&long)).await;
        assert!(matches!(again, Err(EngineError::Refused(Refusal::GroupExists))), "{again:?}");
        if number == GROUPS / 2 {
            add_members(&engine, &queue, &history, &long).await;
            end_group(&engine, &queue, &history, &long, false).await;
        }
        end_group(&engine, &queue, &history, &name, number % 5 == 4).await;
        history.called();
    }
}

/// Half of them end in another queue.
async fn create_group(engine: &Engine, queue: &QueueName, history: &History, name: &str, maker: usize) {
    let to = (maker == 1).then_some("ends");
    let (end, abort) = (end(&format!("end {name}"), to), end(&format!("abort {name}"), to));
    let create = CreateGroup { end, abort, items: items(2), ..group(name) };
    let made = engine.create_group(queue, create).await.expect("the name is new").value;
    let members = made.items.into_iter().map(|made| made.id).collect();
    history.groups.lock().expect("sound").insert(name.to_owned(), Group { members, cancelled: false });
}

async fn add_members(engine: &Engine, queue: &QueueName, history: &History, name: &str) {
    let member = || NewItem { group: Some(name.into()), ..item("member") };
    let told = twice(engine, queue, name, (2..MEMBERS).map(|_| member()).collect()).await;
    let ids = told.iter().map(|made| whose(made).expect("it has no address"));
    let mut groups = history.groups.lock().expect("sound");
    groups.get_mut(name).expect("it was made").members.extend(ids);
}

async fn end_group(engine: &Engine, queue: &QueueName, history: &History, name: &str, cancel: bool) {
    engine.start_group(queue, &name.into()).await.expect("started");
    if cancel {
        match engine.cancel_group(queue, &name.into()).await {
            Ok(_) => {
                history.groups.lock().expect("sound").get_mut(name).expect("it was made").cancelled = true
            }
            Err(EngineError::Refused(Refusal::GroupFinished)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn work(engine: Engine, queue: QueueName, history: Arc<History>) {
    while !history.over.load(Ordering::SeqCst) {
        let granted = engine.lease(&queue, lease(7), Span::ZERO).await.expect("leased").accept();
        let leased = history.tick();
        if granted.is_empty() {
            tokio::task::yield_now().await;
        }
        for item in granted {
            let begin = history.tick();
            let told = engine.complete(&queue, vec![completion(item.held())]).await.expect("judged");
            told.results.into_iter().for_each(|told| told.expect("completed"));
            let body = String::from_utf8_lossy(&item.body).into_owned();
            let done = Done { id: item.leased.id, body, leased, begin, end: history.tick() };
            history.done.lock().expect("sound").push(done);
        }
    }
}

async fn two_to_five_to_one_under_load_breaks_no_promise(world: &World) {
    let queue = world.queue("q", 2, Settings::default()).await;
    let ends = world.queue("ends", 1, Settings::default()).await;
    let history = Arc::new(History::default());
    let go = || (world.engine(), queue.clone(), Arc::clone(&history));
    let mut clients = Vec::new();
    for number in 0..3 {
        let (engine, queue, history) = go();
        clients.push(tokio::spawn(produce_many(engine, queue, history, number)));
    }
    for number in 0..2 {
        let (engine, queue, history) = go();
        clients.push(tokio::spawn(make_groups(engine, queue, history, number)));
    }
    let workers: Vec<_> = [queue_name("q"), queue_name("q"), ends.clone()]
        .map(|queue| tokio::spawn(work(world.engine(), queue, Arc::clone(&history))))
        .into();
    let calls = 3 * CALLS + 2 * GROUPS;
    for (partitions, after) in [(5, calls / 4), (1, calls / 2)] {
        history.has_seen(after, &clients).await;
        world.engine().rebalance(&queue, partitions).await.expect("rebalanced");
    }
    for client in clients {
        client.await.expect("it ran");
    }
    let left = |queue: QueueName| async move {
        let stats = world.stats(&queue).await;
        (stats.counts.live() + stats.moving, stats.partitions.len())
    };
    while left(queue.clone()).await != (0, 1) || left(ends.clone()).await.0 != 0 {
        assert!(!workers.iter().any(JoinHandle::is_finished), "a worker failed");
        tokio::task::yield_now().await;
    }
    history.over.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await.expect("it ran");
    }
    let history = Arc::into_inner(history).expect("everybody has come back");
    check(&history);
}

fn check(history: &History) {
    let done = history.done.lock().expect("sound");
    let by_id: BTreeMap<ItemId, &Done> = done.iter().map(|done| (done.id, done)).collect();
    assert_eq!(by_id.len(), done.len(), "an item was done twice");
    let produced = history.produced.lock().expect("sound");
    let groups = history.groups.lock().expect("sound");
    let plain = history.plain.lock().expect("sound");
    let members = groups.values().filter(|group| !group.cancelled).flat_map(|group| &group.members);
    let made = produced.iter().filter_map(|made| made.told.as_ref().ok());
    for id in made.chain(&*plain).chain(members) {
        assert!(by_id.contains_key(id), "{id} was lost");
    }
    check_addresses(&produced, &by_id);
    check_ends(&groups, &done, &by_id);
}

/// From the answer that an item was made until its completion was asked for it held its address, and nobody else did. Whoever
/// was told that it held the address may have held it meanwhile.
fn check_addresses(produced: &[ByAddress], done: &BTreeMap<ItemId, &Done>) {
    let mut begun = BTreeMap::new();
    for address in 0..ADDRESSES {
        let of_it = || produced.iter().filter(|call| call.address == address);
        let mut held = Vec::new();
        for call in of_it() {
            let Ok(id) = call.told else { continue };
            begun.insert(id, call.begin);
            // One that was done before its call was answered, or sent again, held it at no time that is known.
            held.extend((call.end < done[&id].begin).then_some((call.end, done[&id].begin, id)));
        }
        held.sort_unstable();
        for pair in held.windows(2) {
            let [(_, until, one), (from, _, other)] = pair else { unreachable!("windows of two") };
            assert!(until <= from, "a{address} was held by {one} and {other} at once");
        }
        for call in of_it() {
            let Err(id) = call.told else { continue };
            let from = *begun.get(&id).unwrap_or_else(|| panic!("{id} was never made with a{address}"));
            assert!(from <= call.end && call.begin <= done[&id].end, "{id} held a{address} at another time");
        }
    }
}

/// Each once, and after the last member.
fn check_ends(groups: &BTreeMap<String, Group>, done: &[Done], by_id: &BTreeMap<ItemId, &Done>) {
    let last_words: Vec<&str> = done
        .iter()
        .map(|done| &*done.body)
        .filter(|body| body.starts_with("end ") || body.starts_with("abort "))
        .collect();
    assert_eq!(last_words.len(), groups.len(), "{last_words:?}");
    let different: BTreeSet<&&str> = last_words.iter().collect();
    assert_eq!(different.len(), groups.len());
    for (name, group) in groups {
        let body = if group.cancelled { format!("abort {name}") } else { format!("end {name}") };
        let last_word = done.iter().find(|done| done.body == body).unwrap_or_else(|| panic!("no {body}"));
        let begun = group.members.iter().filter_map(|id| by_id.get(id)).map(|member| member.begin).max();
        assert!(begun.is_none_or(|begun| begun < last_word.leased), "{body} came before the last member");
    }
}
