//! Whether a contender syncs what it acknowledges, looked up from outside before anything is measured.

mod flushes;
mod trace;
mod watch;

use anyhow::Result;

use self::watch::{Mark, Watch};
use crate::fleet::Running;
use crate::peers::{Client, Contender, Job, Manner, next_client};
use crate::report::sheet::Column;
use crate::stats::Better;

/// Turns of one client, each a produce, a lease and a complete of one item.
pub(crate) const TURNS: usize = 50;
const PAYLOAD: usize = 200;

pub(crate) const COLUMNS: &[Column] = &[
    Column { key: "produces_synced", head: "produces", better: Better::Neither },
    Column { key: "leases_synced", head: "leases", better: Better::Neither },
    Column { key: "completes_synced", head: "completes", better: Better::Neither },
];

/// Turns in which a sync ended between a request and its answer, of all turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Synced {
    pub(crate) produces: usize,
    pub(crate) leases: usize,
    pub(crate) completes: usize,
}

impl Synced {
    pub(crate) fn figures(self, contender: Contender) -> Vec<f64> {
        let completes = if completes_alone(contender) { self.completes as f64 } else { f64::NAN };
        vec![self.produces as f64, self.leases as f64, completes]
    }

    /// Why the contender is not measured.
    pub(crate) fn refusal(self) -> Option<String> {
        let Self { produces, .. } = self;
        (produces < TURNS).then(|| format!("only {produces} of {TURNS} acknowledged produces were synced"))
    }

    /// Steps that are answered before they are durable, or not answered at all.
    pub(crate) fn not_durable(self, contender: Contender) -> Vec<String> {
        let mut steps = Vec::new();
        if self.leases < TURNS {
            steps.push("lease".to_owned());
        }
        if self.completes < TURNS && completes_alone(contender) {
            steps.push("complete".to_owned());
        }
        steps
    }
}

/// Whether a complete is a request of its own: `queue.next` sends it with the next lease.
fn completes_alone(contender: Contender) -> bool {
    contender != Contender::WindlassNext
}

/// The moments around the requests of one turn.
#[derive(Debug)]
struct Turn {
    began: Mark,
    produced: Mark,
    leased: Mark,
    completed: Mark,
}

/// Watches the syncs of a contender that is awake while one client takes its turns.
pub(crate) async fn check(running: &Running) -> Result<Synced> {
    let peer = running.peer()?;
    let queue = format!("syncs{}", next_client());
    let job = Job { queue: queue.clone(), batch: 1, payload: PAYLOAD, manner: Manner::Ready };
    peer.create(&queue).await?;
    let mut client = peer.connect(&job).await?;
    // One turn before the watch: the server then has every file open and every thread running.
    client.produce(0).await?;
    client.lease().await?;
    client.complete().await?;
    let watch = Watch::start(&running.pids(), &running.place).await?;
    let turns = turns(client.as_mut(), &watch).await?;
    let seen = watch.finish()?;
    let count =
        |span: fn(&Turn) -> (Mark, Mark)| turns.iter().filter(|turn| seen.any_between(span(turn))).count();
    peer.delete(&queue).await?;
    Ok(Synced {
        produces: count(|turn| (turn.began, turn.produced)),
        leases: count(|turn| (turn.produced, turn.leased)),
        completes: count(|turn| (turn.leased, turn.completed)),
    })
}

async fn turns(client: &mut dyn Client, watch: &Watch) -> Result<Vec<Turn>> {
    let mut turns = Vec::with_capacity(TURNS);
    for number in 1..=TURNS as u64 {
        let began = watch.mark();
        client.produce(number).await?;
        let produced = watch.mark();
        client.lease().await?;
        let leased = watch.mark();
        client.complete().await?;
        turns.push(Turn { began, produced, leased, completed: watch.mark() });
    }
    Ok(turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_produce_that_is_not_synced_is_a_refusal_and_a_lease_is_told() {
        let all = Synced { produces: TURNS, leases: TURNS, completes: TURNS };
        assert_eq!((all.refusal(), all.not_durable(Contender::Redis)), (None, vec![]));
        let lease = Synced { leases: 3, ..all };
        assert_eq!((lease.refusal(), lease.not_durable(Contender::Nats)), (None, vec!["lease".to_owned()]));
        let produce = Synced { produces: TURNS - 1, ..all };
        assert_eq!(produce.refusal().unwrap(), "only 49 of 50 acknowledged produces were synced");
    }

    #[test]
    fn a_complete_that_goes_with_the_next_lease_is_not_told() {
        let next = Synced { produces: TURNS, leases: TURNS, completes: 0 };
        assert_eq!(next.not_durable(Contender::WindlassNext), [] as [String; 0]);
        assert!(next.figures(Contender::WindlassNext)[2].is_nan());
        assert_eq!(next.not_durable(Contender::Rabbitmq), ["complete"]);
    }
}
