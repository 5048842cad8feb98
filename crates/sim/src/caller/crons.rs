//! Calls about crons.

use std::sync::Arc;

use windlass_core::cron::CronName;
use windlass_core::verbs::{CronChange, NewCron};
use windlass_engine::{CronInfo, EngineError};

use super::{Caller, new_item};
use crate::cron::{CronAsk, CronOp, CronSpec};
use crate::history::{Op, Outcome, ShownCron};
use crate::plan::queue_name;

impl Caller {
    /// Tells whether it was done.
    pub async fn cron(&self, name: &Arc<str>, ask: CronAsk) -> bool {
        let op = CronOp { name: Arc::clone(name), ask };
        let call = self.ask_cron(op.clone());
        self.call(Op::Cron(Box::new(op)), call, Outcome::clone).await.is_some()
    }

    /// Lists all crons of the server.
    pub async fn crons(&self) -> Option<Vec<ShownCron>> {
        let namespace = queue_name(0).namespace;
        let call = async {
            let crons = self.engine.crons(&namespace, None, usize::MAX).await?;
            Ok(crons.iter().map(ShownCron::from).collect::<Vec<_>>())
        };
        self.call(Op::Crons, call, |crons| Outcome::Crons(crons.clone())).await
    }

    async fn ask_cron(&self, CronOp { name: of, ask }: CronOp) -> Result<Outcome, EngineError> {
        let name = CronName { namespace: queue_name(0).namespace, name: Arc::clone(&of) };
        let shown = |info: &CronInfo| Outcome::Cron(Box::new(info.into()));
        match ask {
            CronAsk::Create { queue, spec } => {
                let made = self.engine.create_cron(&queue_name(queue), new_cron(of, &spec)).await?;
                Ok(shown(&made.value))
            }
            CronAsk::Update(spec) => Ok(shown(&self.engine.update_cron(&name, change(&spec)).await?.value)),
            CronAsk::Pause => Ok(shown(&self.engine.pause_cron(&name).await?.value)),
            CronAsk::Resume => self.engine.resume_cron(&name).await.map(|_resumed| Outcome::CronDone),
            CronAsk::Trigger => {
                let made = self.engine.trigger_cron(&name).await?;
                Ok(Outcome::Triggered(made.value.id))
            }
            CronAsk::Delete => self.engine.delete_cron(&name).await.map(|_deleted| Outcome::CronDone),
            CronAsk::Info => Ok(shown(&self.engine.cron(&name).await?)),
        }
    }
}

fn new_cron(name: Arc<str>, spec: &CronSpec) -> NewCron {
    NewCron {
        name,
        schedule: spec.schedule(),
        timezone: "UTC".into(),
        item: new_item(&spec.made),
        catch_up: spec.catch_up,
        overlap: spec.overlap,
    }
}

fn change(spec: &CronSpec) -> CronChange {
    CronChange {
        schedule: Some(spec.schedule()),
        timezone: None,
        item: Some(new_item(&spec.made)),
        catch_up: Some(spec.catch_up),
        overlap: Some(spec.overlap),
    }
}
