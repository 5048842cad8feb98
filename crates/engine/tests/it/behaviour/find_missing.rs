//! What is found while one partition of a queue does not serve.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::id::{ItemId, PartitionId};
use windlass_core::item::{ItemError, Phase};
use windlass_core::partition::Find;
use windlass_core::row::QueueName;
use windlass_core::settings::Settings;
use windlass_core::time::Span;
use windlass_core::verbs::{CreateQueue, RetryItem};
use windlass_engine::env::BoxFuture;
use windlass_engine::store::double::Double;
use windlass_engine::store::spread::{Member, Spread};
use windlass_engine::store::{Acquired, Batch, CommitError, Store, StoreError};
use windlass_engine::{Action, Engine, EngineError, Outcome, PartitionState, Search};

use super::find::{ids, in_phases, search};
use super::{retry_item, until};
use crate::world::{ManualEnv, Medium, items, lease, queue_name};

type Broken = Arc<Mutex<Option<PartitionId>>>;

/// Fails all that is done with one partition.
#[derive(Debug)]
struct Breaking {
    inner: Arc<dyn Store>,
    broken: Broken,
}

impl Breaking {
    fn check(&self, partition: PartitionId) -> Result<(), StoreError> {
        if *self.broken.lock().expect("not poisoned") != Some(partition) {
            return Ok(());
        }
        let source = Arc::new(std::io::Error::other("broken on purpose"));
        Err(StoreError::Io { action: "sync", file: "the log".to_owned(), source })
    }
}

impl Double for Breaking {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn acquire(&self, partition: PartitionId) -> BoxFuture<'_, Result<Acquired, StoreError>> {
        Box::pin(async move {
            self.check(partition)?;
            self.inner.acquire(partition).await
        })
    }

    fn commit(&self, batch: Batch) -> BoxFuture<'_, Result<(), CommitError>> {
        Box::pin(async move {
            self.check(batch.partition).map_err(CommitError::NotApplied)?;
            self.inner.commit(batch).await
        })
    }
}

struct Bed {
    env: Arc<ManualEnv>,
    engine: Engine,
    queue: QueueName,
    broken: Broken,
}

impl Bed {
    async fn new(store: Arc<dyn Store>, env: Arc<ManualEnv>, broken: Broken) -> Self {
        let engine = Engine::open(env.clone(), store).await.expect("the engine opens");
        let queue = queue_name("q");
        let create = CreateQueue::new(queue.clone(), Settings::default(), 2);
        engine.create_queue(create).await.expect("the queue is made");
        Self { env, engine, queue, broken }
    }

    async fn find(&self, search: &Search) -> Result<Vec<ItemId>, EngineError> {
        self.engine.find(&self.queue, search, None).await.map(|page| ids(&page.items))
    }

    /// Produces until so many partitions do not serve.
    async fn until_faulty(&self, count: usize) {
        let serves = |state: &PartitionState| *state == PartitionState::Available;
        until(async || {
            self.env.advance(Duration::from_secs(1));
            let _some_fail = self.engine.produce(&self.queue, items(1)).await;
            let stats = self.engine.stats(&self.queue).await.expect("stats");
            stats.partitions.iter().filter(|partition| !serves(&partition.state)).count() == count
        })
        .await;
    }
}

fn is_not_applied<T>(result: &Result<T, EngineError>) -> bool {
    matches!(result, Err(EngineError::Unavailable { outcome: Outcome::NotApplied, .. }))
}

async fn a_search_fails_or_names_the_partition_that_is_missing(bed: Bed) {
    let Bed { engine, queue, .. } = &bed;
    for _ in 0..2 {
        engine.produce(queue, items(3)).await.expect("produced");
    }
    let leased = engine.lease(queue, lease(6), Span::ZERO).await.expect("leased").accept();
    let error = ItemError { code: Some("broken".into()), message: "no".into() };
    let dead = |granted| RetryItem { dead: true, error: Some(error.clone()), ..retry_item(granted) };
    engine.retry(queue, leased.iter().map(dead).collect()).await.expect("judged");
    let failed = search(in_phases([Phase::Failed]), 100);
    let all = bed.find(&failed).await.expect("found");
    let broken = all[0].partition;
    let (of_broken, of_other): (BTreeSet<ItemId>, BTreeSet<ItemId>) =
        all.iter().partition(|id| id.partition == broken);
    assert_eq!((of_broken.len(), of_other.len()), (3, 3));

    *bed.broken.lock().expect("not poisoned") = Some(broken);
    bed.until_faulty(1).await;
    assert!(is_not_applied(&bed.find(&failed).await));
    assert!(is_not_applied(&engine.find_in_all_queues(&failed).await));
    assert!(is_not_applied(&engine.errors(queue, 50).await));
    assert!(is_not_applied(&engine.change_items(queue, &failed, None, Action::Delete, false).await));
    let partial = Search { partial: true, ..failed.clone() };
    let page = engine.find(queue, &partial, None).await.expect("found");
    let in_all = engine.find_in_all_queues(&partial).await.expect("found");
    for page in [&page, &in_all] {
        assert_eq!(page.missing, [broken]);
        assert_eq!(ids(&page.items).into_iter().collect::<BTreeSet<_>>(), of_other);
    }
    let of_no_kind = Find { kinds: Some(BTreeSet::new()), ..Find::default() };
    for nothing in [in_phases([]), of_no_kind] {
        assert_eq!(bed.find(&search(nothing, 10)).await.expect("no partition is asked"), []);
    }

    *bed.broken.lock().expect("not poisoned") = None;
    bed.until_faulty(0).await;
    let rest = engine.find(queue, &partial, page.walk.as_ref()).await.expect("found");
    let seen: BTreeSet<ItemId> = ids(&rest.items).into_iter().collect();
    assert_eq!((seen, rest.walk, rest.missing), (of_broken, None, vec![]));
    assert_eq!(engine.errors(queue, 50).await.expect("counted")[0].count, 6);
    engine.close().await;
}

async fn on(medium: &Medium) -> Bed {
    let (env, broken) = (Arc::new(ManualEnv::new()), Broken::default());
    let inner = medium.open(&env).await;
    let store = Arc::new(Breaking { inner, broken: Arc::clone(&broken) });
    Bed::new(store, env, broken).await
}

mod memory {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_search_fails_or_names_the_partition_that_is_missing() {
        super::a_search_fails_or_names_the_partition_that_is_missing(on(&Medium::memory()).await).await;
    }
}

mod spread {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_search_fails_or_names_the_partition_that_is_missing() {
        let (env, broken) = (Arc::new(ManualEnv::new()), Broken::default());
        let mut members = Vec::new();
        for _ in 0..2 {
            let inner = Medium::memory().open(&env).await;
            members.push(Arc::new(Breaking { inner, broken: Arc::clone(&broken) }));
        }
        let second = Member::opened("second", members.remove(1));
        let store = Arc::new(Spread::open(members.remove(0), vec![second]).await);
        super::a_search_fails_or_names_the_partition_that_is_missing(Bed::new(store, env, broken).await)
            .await;
    }
}

mod log {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_search_fails_or_names_the_partition_that_is_missing() {
        let medium = Medium::log();
        super::a_search_fails_or_names_the_partition_that_is_missing(on(&medium).await).await;
    }
}
