//! Requests and replies about rules: what stops a queue, or one kind of its items.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// Something that holds work back.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rule {
    /// `pause` (the user's) or `block` (the administrator's).
    #[prost(string, tag = "1")]
    #[schemars(extend("enum" = ["pause", "block"]))]
    pub rule: String,
    /// The name of the queue.
    #[prost(string, tag = "2")]
    pub queue: String,
    /// The kind it stands on: the whole queue if unset.
    #[prost(string, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Why, in the words of whoever set it.
    #[prost(string, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it lifts itself: never if unset.
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Since when it stands.
    #[prost(message, required, tag = "6")]
    pub created_at: Time,
}

macro_rules! set_or_lift {
    ($($request:ident)+) => {
        $(#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        #[schemars(extend("required" = ["queue"]))]
        pub struct $request {
            /// The name of the queue.
            #[prost(string, tag = "1")]
            pub queue: String,
            /// One kind of its items, 1 to 128 characters: the whole queue if unset.
            #[prost(string, optional, tag = "2")]
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(length(min = 1, max = 128))]
            pub kind: Option<String>,
            /// Why: at most 512 bytes. Of no use where a rule is lifted.
            #[prost(string, optional, tag = "3")]
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schemars(length(max = 512))]
            pub reason: Option<String>,
            /// When the rule lifts itself, in the future: never if unset. Of no use where a rule is lifted.
            #[prost(message, optional, tag = "4")]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub until: Option<Time>,
        })+
    };
}

set_or_lift! { PauseQueueRequest ResumeQueueRequest BlockQueueRequest UnblockQueueRequest }

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RuleReply {
    /// The rule as it stands now.
    #[prost(message, required, tag = "1")]
    pub rule: Rule,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LiftRuleReply {}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListRulesRequest {
    /// The name of a queue: the rules of all queues if unset.
    #[prost(string, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ListRulesReply {
    /// All of them: by queue, those on a whole queue before those on kinds.
    #[prost(message, repeated, tag = "1")]
    pub rules: Vec<Rule>,
}
