//! One history: a time of trouble, then a calm in which everything has to come to its end.

use crate::actor::Actor;
use crate::fault::Fault;
use crate::relay::FIRST;
use crate::world::{START, Style, TICK, World};

/// Steps of the world in trouble, and in calm.
const TROUBLE: usize = 200;
const CALM: usize = 900;
/// So many without a move are the end.
const REST: usize = 80;

/// What went wrong.
pub(crate) fn play(style: Style, seed: u64, fault: Option<Fault>) -> Result<(), String> {
    let mut world = World::new(style, seed, fault);
    let mut actor = Actor::new();
    for step in 0..TROUBLE {
        world.step();
        if step > 10 {
            trouble(style, &mut world, &mut actor);
        }
        actor.turn(&mut world);
        check(&world)?;
    }
    // The last that have crashed start again.
    for _ in 0..START / TICK {
        world.step();
        actor.turn(&mut world);
        check(&world)?;
    }
    world.is_calm = true;
    world.cuts.clear();
    for number in 0..world.servers.len() {
        world.servers[number].is_reached = true;
        if !world.servers[number].is_up {
            world.restart(number);
        }
    }
    for relay in &mut world.relays {
        (relay.is_reached, relay.is_stuck) = (true, false);
        if !relay.is_up {
            relay.turn_over();
        }
    }
    let mut at_rest = 0;
    for _ in 0..CALM {
        world.step();
        actor.turn(&mut world);
        check(&world)?;
        at_rest = if actor.is_idle() { at_rest + 1 } else { 0 };
        if at_rest > REST {
            break;
        }
    }
    settled(&world, &actor)
}

/// A switchover whose old primary dies after it was closed, and stays dead. Beside that only actors die, and messages get lost.
pub(crate) fn stay_dead(style: Style, seed: u64) -> Result<(), String> {
    let mut world = World::new(style, seed, None);
    let mut actor = Actor::new();
    let moment = world.rng.below(20);
    let (mut dead, mut closed_for, mut at_rest) = (None, 0, 0);
    world.proceeds = true;
    for step in 0..TROUBLE + CALM {
        world.is_calm = step > TROUBLE;
        world.step();
        if dead.is_none() && step > 10 && !world.is_calm {
            actor.switch(&mut world);
            let closed = actor.gives_up().filter(|old| !world.servers[*old].is_open);
            closed_for = if closed.is_some() { closed_for + 1 } else { 0 };
            dead = closed.filter(|_| closed_for > moment);
            if let Some(old) = dead {
                world.crash(old);
            }
        } else if world.is_calm && actor.is_idle() {
            // An operator does what no proxy may.
            actor.fail_over(&mut world);
        }
        actor.turn(&mut world);
        check(&world)?;
        at_rest = if world.is_calm && actor.is_idle() { at_rest + 1 } else { 0 };
        if at_rest > REST {
            break;
        }
    }
    let open: Vec<_> = world.servers.iter().filter(|one| one.is_up && one.is_open).collect();
    if open.len() == 1 && actor.is_idle() {
        return Ok(());
    }
    Err(format!("s{dead:?} has died, and {} servers take writes, idle: {}", open.len(), actor.is_idle()))
}

fn trouble(style: Style, world: &mut World, actor: &mut Actor) {
    let count = world.servers.len();
    if world.fault == Some(Fault::ReceiversGoOn) && world.rng.percent(1) {
        // What it leads to takes an operator who does not look whether the primary lives.
        world.servers[actor.watched()].is_reached = false;
        actor.fail_over(world);
    }
    let number = world.rng.below(count);
    // Whoever opens a server by hand looks after it.
    if world.spared == Some(number) {
        return;
    }
    match world.rng.below(400) {
        0..8 => actor.switch(world),
        8..11 => world.crash(number),
        11..24 if world.may_restart(number) => world.restart(number),
        // Where nobody waits for acknowledgements only a move that is planned is safe.
        24..27 if style != Style::Async => {
            world.tell(|| format!("s{number} is not reached"));
            world.servers[number].is_reached = false;
        }
        27..36 => world.servers[number].is_reached = true,
        36..39 => {
            let other = match world.relays.len() {
                relays if relays > 0 && world.rng.percent(40) => FIRST + world.rng.below(relays),
                _ => world.rng.below(count),
            };
            world.tell(|| format!("cut s{number} s{other}"));
            world.cuts.push((number, other));
        }
        39..48 => {
            world.cuts.pop();
        }
        48..56 => actor.fail_over(world),
        56..60 if !world.relays.is_empty() => {
            let relay = world.rng.below(world.relays.len());
            let own = &mut world.relays[relay];
            own.turn_over();
            let is_up = own.is_up;
            world.tell(|| format!("r{relay} is up: {is_up}"));
        }
        60..63 if !world.relays.is_empty() => {
            let relay = world.rng.below(world.relays.len());
            world.relays[relay].is_reached = !world.relays[relay].is_reached;
        }
        63..66 if !world.relays.is_empty() => {
            let relay = world.rng.below(world.relays.len());
            world.relays[relay].is_stuck = !world.relays[relay].is_stuck;
        }
        66..76 => actor.open_by_hand(world),
        _ => {}
    }
}

fn check(world: &World) -> Result<(), String> {
    world.wrong.clone().map_or(Ok(()), Err)
}

fn settled(world: &World, actor: &Actor) -> Result<(), String> {
    let open: Vec<_> = (0..world.servers.len()).filter(|number| world.servers[*number].is_open).collect();
    let [primary] = open[..] else {
        let names: Vec<_> = open.iter().map(|number| name(*number)).collect();
        return Err(format!(
            "{} servers take writes in the end: {names:?}, idle: {}",
            open.len(),
            actor.is_idle()
        ));
    };
    let own = &world.servers[primary];
    let lost = world.acknowledged.iter().filter(|tx| !own.has.get(**tx).copied().unwrap_or_default()).count();
    if lost > 0 {
        return Err(format!(
            "{lost} acknowledged transactions were lost: {} does not have them",
            name(primary)
        ));
    }
    if !actor.is_idle() {
        return Err("a move does not come to its end".to_owned());
    }
    if let Some(relay) = (0..world.relays.len()).find(|relay| !world.relays[*relay].goes_for(primary)) {
        return Err(format!("r{relay} does not go for {}", name(primary)));
    }
    Ok(())
}

fn name(number: usize) -> String {
    format!("s{number}")
}
