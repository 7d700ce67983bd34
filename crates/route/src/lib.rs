//! Statement, session and snapshot to a plan with its reason.
