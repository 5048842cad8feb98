//! One client of PostgreSQL.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Row, Statement};

use super::Connection;
use crate::payload;
use crate::peers::{Client, Job, LEASE_SECONDS, Manner, next_client, numbers};

/// The pause before a lease is tried again that found nothing.
const POLL: Duration = Duration::from_millis(1);
/// The longest pause with [`Manner::Waiting`]: a notification ends it before.
const POLL_NOTIFIED: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct PostgresClient {
    client: tokio_postgres::Client,
    job: Job,
    statements: Statements,
    notified: Arc<Notify>,
    /// The permit of the last lease: larger with every lease, and different from those of other clients.
    permit: i64,
    held: Vec<i64>,
    leased: Vec<u64>,
}

#[derive(Debug)]
struct Statements {
    produce: Statement,
    lease: Statement,
    complete: Statement,
}

impl PostgresClient {
    pub(super) async fn new(
        client: tokio_postgres::Client,
        connection: Connection,
        job: &Job,
    ) -> Result<Self> {
        let notified = Arc::new(Notify::new());
        tokio::spawn(carry(connection, notified.clone()));
        if job.manner == Manner::Waiting {
            client.batch_execute(&format!("LISTEN {}", job.queue)).await?;
        }
        let statements = prepare(&client, job).await.context("cannot prepare the statements")?;
        Ok(Self {
            client,
            job: job.clone(),
            statements,
            notified,
            permit: (next_client() << 32) as i64,
            held: Vec::new(),
            leased: Vec::new(),
        })
    }

    async fn insert(&mut self, first: u64, due: SystemTime) -> Result<()> {
        let payload = |number| {
            let mut bytes = Vec::with_capacity(self.job.payload);
            payload::append(&mut bytes, number, self.job.payload);
            bytes
        };
        let payloads: Vec<Vec<u8>> = numbers(first, self.job.batch).map(payload).collect();
        self.client
            .execute(&self.statements.produce, &[&payloads, &due])
            .await
            .context("an insert failed")?;
        Ok(())
    }

    async fn take(&mut self) -> Result<Vec<Row>> {
        self.permit += 1;
        let leased = self.client.query(&self.statements.lease, &[&self.permit]).await;
        leased.context("a lease failed")
    }

    async fn wait(&self) {
        let poll = if self.job.manner == Manner::Waiting { POLL_NOTIFIED } else { POLL };
        let _woken_or_late = tokio::time::timeout(poll, self.notified.notified()).await;
    }
}

async fn prepare(client: &tokio_postgres::Client, job: &Job) -> Result<Statements, tokio_postgres::Error> {
    let Job { queue, batch, .. } = job;
    let insert =
        format!("INSERT INTO {queue} (payload, ready_at) SELECT unnest($1::bytea[]), $2::timestamptz");
    let produce = match job.manner {
        Manner::Ready | Manner::Scheduled => insert,
        Manner::Waiting => format!("WITH made AS ({insert}) SELECT pg_notify('{queue}', '')"),
    };
    // The limit is a literal: the planner guesses a tenth of the table for a parameter.
    let lease = format!(
        "UPDATE {queue} SET permit = $1, ready_at = now() + interval '{LEASE_SECONDS} seconds' WHERE id IN \
         (SELECT id FROM {queue} WHERE ready_at <= now() ORDER BY ready_at, id LIMIT {batch} FOR UPDATE SKIP LOCKED) \
         RETURNING id, payload"
    );
    let complete = format!("DELETE FROM {queue} WHERE id = ANY($1) AND permit = $2");
    Ok(Statements {
        produce: client.prepare(&produce).await?,
        lease: client.prepare(&lease).await?,
        complete: client.prepare(&complete).await?,
    })
}

/// Carries a connection's traffic until its client is gone, and passes notifications on.
async fn carry(mut connection: Connection, notified: Arc<Notify>) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if matches!(message, AsyncMessage::Notification(_)) {
            notified.notify_one();
        }
    }
}

#[async_trait]
impl Client for PostgresClient {
    async fn produce(&mut self, first: u64) -> Result<()> {
        self.insert(first, SystemTime::now()).await
    }

    async fn schedule(&mut self, first: u64, due: SystemTime) -> Result<()> {
        self.insert(first, due).await
    }

    async fn lease(&mut self) -> Result<&[u64]> {
        let mut rows = self.take().await?;
        while rows.is_empty() {
            self.wait().await;
            rows = self.take().await?;
        }
        self.held.clear();
        self.leased.clear();
        for row in rows {
            self.held.push(row.get(0));
            self.leased.push(payload::number(row.get(1))?);
        }
        Ok(&self.leased)
    }

    async fn complete(&mut self) -> Result<()> {
        let completed = self.client.execute(&self.statements.complete, &[&self.held, &self.permit]).await;
        let completed = completed.context("a complete failed")?;
        ensure!(
            completed == self.held.len() as u64,
            "{completed} of {} items were completed",
            self.held.len()
        );
        Ok(())
    }
}
