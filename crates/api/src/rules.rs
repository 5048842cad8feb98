//! Requests and replies about rules: what stops a queue, or one kind of its items.

use windlass_api_derive::{reply, request};

use crate::time::Time;

/// Something that holds work back.
#[reply]
pub struct Rule {
    /// `pause` (the user's) or `block` (the administrator's).
    #[field(1)]
    #[schemars(extend("enum" = ["pause", "block"]))]
    pub rule: String,
    /// The name of the queue.
    #[field(2)]
    pub queue: String,
    /// The kind it stands on: the whole queue if unset.
    #[field(3)]
    pub kind: Option<String>,
    /// Why, in the words of whoever set it.
    #[field(4)]
    pub reason: Option<String>,
    /// When it lifts itself: never if unset.
    #[field(5)]
    pub until: Option<Time>,
    /// Since when it stands.
    #[field(6)]
    pub created_at: Time,
}

macro_rules! set_or_lift {
    ($($request:ident)+) => {
        $(#[request]
        pub struct $request {
            /// The name of the queue.
            #[field(1)]
            pub queue: String,
            /// One kind of its items, 1 to 128 characters: the whole queue if unset.
            #[field(2)]
            #[schemars(length(min = 1, max = 128))]
            pub kind: Option<String>,
            /// Why: at most 512 bytes. Of no use where a rule is lifted.
            #[field(3)]
            #[schemars(length(max = 512))]
            pub reason: Option<String>,
            /// When the rule lifts itself, in the future: never if unset. Of no use where a rule is lifted.
            #[field(4)]
            pub until: Option<Time>,
        })+
    };
}

set_or_lift! { PauseQueueRequest ResumeQueueRequest BlockQueueRequest UnblockQueueRequest }

#[reply]
pub struct RuleReply {
    /// The rule as it stands now.
    #[field(1)]
    pub rule: Rule,
}

#[reply]
pub struct LiftRuleReply {}

#[request]
pub struct ListRulesRequest {
    /// The name of a queue: the rules of all queues if unset.
    #[field(1)]
    pub queue: Option<String>,
}

#[reply]
pub struct ListRulesReply {
    /// All of them: by queue, those on a whole queue before those on kinds.
    #[field(1)]
    pub rules: Vec<Rule>,
}
