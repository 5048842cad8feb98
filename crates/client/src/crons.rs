//! Crons of all queues.

use windlass_api::crons::{
    CreateCronRequest, Cron, CronInfoRequest, DeleteCronRequest, ListCronsRequest, PauseCronRequest,
    ResumeCronRequest, TriggerCronRequest, UpdateCronRequest,
};
use windlass_api::items::ProducedItem;

use crate::client::{Client, PAGE};
use crate::error::ClientError;

impl Client {
    /// Makes a cron: an item is produced at each time of its schedule.
    pub async fn create_cron(&self, request: CreateCronRequest) -> Result<Cron, ClientError> {
        Ok(self.call(&request).await?.cron)
    }

    /// Changes what the request names, and nothing else.
    pub async fn update_cron(&self, request: UpdateCronRequest) -> Result<Cron, ClientError> {
        Ok(self.call(&request).await?.cron)
    }

    /// A cron, with its next ten times.
    pub async fn cron(&self, cron: impl Into<String>) -> Result<Cron, ClientError> {
        Ok(self.call(&CronInfoRequest { cron: cron.into() }).await?.cron)
    }

    pub async fn delete_cron(&self, cron: impl Into<String>) -> Result<(), ClientError> {
        self.call(&DeleteCronRequest { cron: cron.into() }).await.map(drop)
    }

    /// Lets its times pass: none of them is missed.
    pub async fn pause_cron(&self, cron: impl Into<String>) -> Result<Cron, ClientError> {
        Ok(self.call(&PauseCronRequest { cron: cron.into() }).await?.cron)
    }

    /// Goes on with the next of its times.
    pub async fn resume_cron(&self, cron: impl Into<String>) -> Result<(), ClientError> {
        self.call(&ResumeCronRequest { cron: cron.into() }).await.map(drop)
    }

    /// Produces its item now, also when it is paused; its times stay as they are.
    pub async fn trigger_cron(&self, cron: impl Into<String>) -> Result<ProducedItem, ClientError> {
        Ok(self.call(&TriggerCronRequest { cron: cron.into() }).await?.item)
    }

    /// All crons by name, without their next times.
    pub async fn crons(&self) -> Result<Vec<Cron>, ClientError> {
        let mut crons: Vec<Cron> = Vec::new();
        loop {
            let pivot = crons.last().map(|cron| cron.cron.clone());
            let page = self.call(&ListCronsRequest { pivot, limit: Some(PAGE) }).await?.crons;
            // One that is bounded in bytes may be short.
            if page.is_empty() {
                return Ok(crons);
            }
            crons.extend(page);
        }
    }
}
