//! Former homes that know no key of a slot any more are not asked about that slot any longer. The writer of a former home tells
//! when its keys may be gone.

use windlass_core::verbs::ForgetFormerHome;

use super::Registry;
use crate::error::EngineError;
use crate::queue::QueueHandle;

impl Registry {
    /// Tells whether the registry was told of any.
    pub(super) async fn forget_former_homes(&self, queue: &QueueHandle) -> Result<bool, EngineError> {
        let mut any = false;
        let route_version = queue.queue.route_version;
        for (&partition, former) in &queue.queue.former {
            let Some(slots) = self.host.slots_without_keys(queue, partition, *former).await? else {
                continue;
            };
            let queue = queue.queue.name.clone();
            let forget = ForgetFormerHome { queue, partition, slots, route_version };
            self.home.apply(forget).await?;
            any = true;
        }
        Ok(any)
    }
}
