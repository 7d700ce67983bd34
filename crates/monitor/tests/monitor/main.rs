//! The monitor against scripted backends and against real servers.

#[cfg(test)]
mod faults;
#[cfg(test)]
mod healthy;
#[cfg(test)]
mod names;
#[cfg(test)]
mod peer;
#[cfg(test)]
mod real;
mod replicas;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod traffic;
