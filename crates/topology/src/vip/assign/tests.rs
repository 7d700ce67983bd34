//! Who gets what: members, holders and wishes in one line each.

use super::*;

/// Members in one line: `a:primary b:proxy+replica-r1 c:replica?` where `?` is one that has just come, and `-r1` says what it cannot have.
fn peers(line: &str) -> Vec<Peer> {
    let one = |word: &str| {
        let (name, fitness) = word.split_once(':').unwrap();
        let is_steady = !fitness.ends_with('?');
        let words = fitness.trim_end_matches('?').replace('+', " ").replace('-', " cannot:");
        Peer::told(name.into(), &words, is_steady)
    };
    line.split_whitespace().map(one).collect()
}

fn holders(line: &str) -> Holders {
    line.split_whitespace()
        .map(|word| word.split_once('@').unwrap())
        .map(|(vip, member)| (vip.into(), member.into()))
        .collect()
}

/// `w` is the primary's; `r1`, `r2` .. are replicas'; `p1` .. are proxies'.
fn vips(line: &str, floating: Floating) -> Vec<Vip> {
    let one = |name: &str| {
        let role = match name.as_bytes()[0] {
            b'w' => VipRole::Primary,
            b'p' => VipRole::Proxy,
            _ => VipRole::Replica(floating),
        };
        Vip { name: name.into(), role }
    };
    line.split_whitespace().map(one).collect()
}

struct Case<'a> {
    vips: &'a str,
    floating: Floating,
    peers: &'a str,
    held: &'a str,
    preferred: &'a str,
    is_frozen: bool,
}

impl Default for Case<'_> {
    fn default() -> Self {
        Self {
            vips: "w r1 r2",
            floating: Floating::ToPrimary,
            peers: "",
            held: "",
            preferred: "",
            is_frozen: false,
        }
    }
}

impl Case<'_> {
    fn wanted(&self) -> String {
        let (vips, peers) = (vips(self.vips, self.floating), peers(self.peers));
        let (held, preferred) = (holders(self.held), holders(self.preferred));
        let facts = Assigning {
            vips: &vips,
            peers: &peers,
            held: &held,
            preferred: &preferred,
            is_frozen: self.is_frozen,
            usual_replicas: 2,
        };
        let wanted = assign(&facts);
        let words: Vec<_> = wanted.iter().map(|(vip, member)| format!("{vip}@{member}")).collect();
        words.join(" ")
    }
}

#[test]
fn each_goes_where_it_belongs() {
    let case = Case { peers: "a:primary b:replica c:replica", ..Case::default() };
    assert_eq!(case.wanted(), "r1@b r2@c w@a");
    let nobody = Case { peers: "b:replica?", ..Case::default() };
    assert_eq!(nobody.wanted(), "r1@b", "no primary to take the other one, and no write VIP");
}

#[test]
fn a_lost_replicas_goes_to_the_primary_or_to_another_and_comes_back() {
    let case = Case { peers: "a:primary c:replica", held: "w@a r1@b r2@c", ..Case::default() };
    assert_eq!(case.wanted(), "r1@a r2@c w@a");
    let case = Case { floating: Floating::ToAnotherReplica, ..case };
    assert_eq!(case.wanted(), "r1@c r2@c w@a");
    let held = "w@a r1@a r2@c";
    let back = Case { peers: "a:primary b:replica? c:replica", held, ..Case::default() };
    assert_eq!(back.wanted(), "r1@a r2@c w@a", "it has only just come");
    let back = Case { peers: "a:primary b:replica c:replica", held, ..Case::default() };
    assert_eq!(back.wanted(), "r1@b r2@c w@a");
    let alone = Case { peers: "a:primary", floating: Floating::ToAnotherReplica, ..Case::default() };
    assert_eq!(alone.wanted(), "r1@a r2@a w@a");
}

#[test]
fn holders_keep_what_they_have_and_only_two_too_many_move() {
    let proxies = Case { vips: "p1 p2 p3", peers: "a:proxy b:proxy", ..Case::default() };
    assert_eq!(Case { held: "p1@b p2@b p3@a", ..proxies }.wanted(), "p1@b p2@b p3@a");
    assert_eq!(Case { held: "p1@b p2@b p3@b", ..proxies }.wanted(), "p1@b p2@b p3@a");
    let new = Case { peers: "a:proxy? b:proxy", held: "p1@b p2@b p3@b", ..proxies };
    assert_eq!(new.wanted(), "p1@b p2@b p3@b");
    assert_eq!(Case { peers: "a:proxy? b:proxy", ..proxies }.wanted(), "p1@a p2@b p3@a");
}

/// A proxy on a server's host is fit for both.
#[test]
fn what_a_member_has_of_one_role_moves_nothing_of_another() {
    let both = Case {
        vips: "r1 r2 p1",
        floating: Floating::ToAnotherReplica,
        peers: "a:proxy+replica b:proxy+replica",
        held: "r1@a r2@a p1@a",
        ..Case::default()
    };
    assert_eq!(both.wanted(), "p1@a r1@a r2@b");
}

#[test]
fn an_operators_wish_counts_where_it_can_be_met() {
    let case = Case { peers: "a:primary b:replica c:replica", held: "w@a r1@b r2@c", ..Case::default() };
    assert_eq!(Case { preferred: "r1@c", ..case }.wanted(), "r1@c r2@b w@a", "with room for one each");
    assert_eq!(Case { preferred: "w@c", ..case }.wanted(), "r1@b r2@c w@a", "c is no primary");
    let proxies = Case { vips: "p1 p2", peers: "a:proxy b:proxy", preferred: "p1@a p2@a", ..Case::default() };
    assert_eq!(proxies.wanted(), "p1@a p2@a");
}

#[test]
fn what_a_host_cannot_have_goes_to_another() {
    let proxies = Case { vips: "p1 p2", peers: "a:proxy-p1 b:proxy", held: "p1@a p2@a", ..Case::default() };
    assert_eq!(proxies.wanted(), "p1@b p2@a");
    let alone = Case { peers: "a:proxy-p1", ..proxies };
    assert_eq!(alone.wanted(), "p2@a", "it is nowhere rather than where it cannot be");
    let replicas = Case { peers: "a:primary-r1 c:replica-w", held: "r2@c", ..Case::default() };
    assert_eq!(replicas.wanted(), "r2@c w@a", "the primary does not stand in for what it cannot have");
    let wish = Case { preferred: "p1@a", ..proxies };
    assert_eq!(wish.wanted(), "p1@b p2@a");
}

#[test]
fn one_that_may_only_be_slow_keeps_what_no_other_can_have() {
    let held = "w@a r1@b r2@c";
    let case = Case { peers: "a:slow:primary b:replica c:replica", held, ..Case::default() };
    assert_eq!(case.wanted(), held_in_order("w@a r1@b r2@c"));
    let all = Case { peers: "a:slow:primary b:slow:replica c:slow:replica", ..case };
    assert_eq!(all.wanted(), held_in_order("w@a r1@b r2@c"));
    let replaced = Case { peers: "a:slow:primary b:primary c:replica", ..case };
    assert!(replaced.wanted().contains("w@b"), "the role decides: {}", replaced.wanted());
    let cannot = Case { peers: "a:slow:primary b:primary-w c:replica", ..case };
    assert!(!cannot.wanted().contains("w@"), "nowhere rather than with the old one: {}", cannot.wanted());
    let lost = Case { peers: "a:slow:replica b:replica c:replica", ..case };
    assert_eq!(lost.wanted(), held_in_order("r1@b r2@c"), "it was seen without the role");
    let replica = Case { peers: "a:primary b:slow:replica c:replica", ..case };
    assert_eq!(replica.wanted(), held_in_order("w@a r1@a r2@c"), "another is fit for it");
    let refused = Case { peers: "a: b:replica c:replica", ..case };
    assert_eq!(refused.wanted(), held_in_order("r1@b r2@c"));
    let nothing = Case { held: "", ..case };
    assert_eq!(nothing.wanted(), held_in_order("r1@b r2@c"), "it gets nothing anew");
}

#[test]
fn a_proxys_address_stays_where_all_are_slow() {
    let proxies = Case { vips: "p1", peers: "a:slow:proxy b:slow:proxy", held: "p1@b", ..Case::default() };
    assert_eq!(proxies.wanted(), "p1@b");
    assert_eq!(Case { peers: "a:proxy b:slow:proxy", ..proxies }.wanted(), "p1@a");
    assert_eq!(Case { peers: "a: b:", ..proxies }.wanted(), "");
    assert_eq!(Case { peers: "a: b:slow:proxy-p1", ..proxies }.wanted(), "", "the host cannot have it");
}

/// As `wanted` writes it.
fn held_in_order(line: &str) -> String {
    let mut words: Vec<_> = line.split(' ').collect();
    words.sort_unstable();
    words.join(" ")
}

#[test]
fn what_is_frozen_does_not_move() {
    let case = Case { is_frozen: true, vips: "p1 p2", ..Case::default() };
    assert_eq!(Case { peers: "a: b:proxy", held: "p1@a", ..case }.wanted(), "p1@a", "restarted in peace");
    let primary = Case { is_frozen: true, vips: "w", held: "w@a", ..Case::default() };
    assert_eq!(Case { peers: "a: b:replica", ..primary }.wanted(), "w@a");
    assert_eq!(Case { peers: "a: b:primary", ..primary }.wanted(), "", "writes must not go to the old one");
}
