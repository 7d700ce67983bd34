//! Programs that the kernel runs on packets, to choose those that a socket gets: classic BPF. All of them are about the packet that opens a
//! TCP connection (SYN without ACK) to one of some addresses. Source: <https://docs.kernel.org/networking/filter.html>

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsFd;

use socket2::{SockFilter, SockRef};

/// The whole packet.
const ALL: u32 = u32::MAX;
const NOTHING: u32 = 0;

/// Flags of TCP: FIN, SYN, RST and ACK. What opens a connection has SYN alone.
const FLAGS: u32 = 0x17;
const SYN: u32 = 0x02;

const TCP: u32 = 6;
const ICMP_V6: u32 = 58;
const ADVERTISEMENT: u32 = 136;

/// Where a TCP socket's filter finds the IP header: `SKF_NET_OFF`.
const NETWORK: u32 = (-0x10_0000_i32).cast_unsigned();

/// A program.
pub struct Filter(Vec<SockFilter>);

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filter").field(&self.0.len()).finish()
    }
}

/// What is asked of a packet.
#[derive(Clone, Copy)]
enum Check {
    /// Nothing: the length of the IPv4 header at the start is added to the place of later checks of that kind.
    AfterHeader,
    /// A byte, by its place, the bits of it that count, and their value.
    Byte(u32, u32, u32),
    /// The same behind the IPv4 header.
    ByteBehind(u32, u32, u32),
    /// Four bytes.
    Word(u32, u32),
}

impl Filter {
    /// For packets from the IP header on (`AF_PACKET`): those that open a connection to the address; with IPv6 also advertisements of
    /// neighbours, of any address.
    pub fn openings(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => {
                let checks = [
                    Check::Byte(9, 0xff, TCP),
                    Check::Word(16, address.to_bits()),
                    Check::AfterHeader,
                    Check::ByteBehind(13, FLAGS, SYN),
                ];
                Self::compile(&[(checks.to_vec(), ALL)], NOTHING)
            }
            IpAddr::V6(address) => {
                let mut opening = vec![Check::Byte(6, 0xff, TCP), Check::Byte(40 + 13, FLAGS, SYN)];
                opening.extend(words(address, 24));
                let advertised = vec![Check::Byte(6, 0xff, ICMP_V6), Check::Byte(40, 0xff, ADVERTISEMENT)];
                Self::compile(&[(opening, ALL), (advertised, ALL)], NOTHING)
            }
        }
    }

    /// For a socket that listens: everything but what opens a connection to one of these.
    pub fn no_openings(addresses: &[IpAddr]) -> Self {
        let rule = |address: &IpAddr| {
            let mut checks = vec![Check::Byte(13, FLAGS, SYN)];
            match address {
                IpAddr::V4(address) => {
                    checks.extend([
                        Check::Byte(NETWORK, 0xf0, 0x40),
                        Check::Word(NETWORK.wrapping_add(16), address.to_bits()),
                    ]);
                }
                IpAddr::V6(address) => {
                    checks.push(Check::Byte(NETWORK, 0xf0, 0x60));
                    checks.extend(words(*address, NETWORK.wrapping_add(24)));
                }
            }
            (checks, NOTHING)
        };
        Self::compile(&addresses.iter().map(rule).collect::<Vec<_>>(), ALL)
    }

    /// The verdict of the first rule whose checks all hold.
    fn compile(rules: &[(Vec<Check>, u32)], otherwise: u32) -> Self {
        let mut program = Vec::new();
        for (checks, verdict) in rules {
            let mut rule: Vec<_> = checks.iter().flat_map(|check| check.load()).collect();
            rule.push(Instruction::Return(*verdict));
            let length = rule.len();
            for (at, instruction) in rule.into_iter().enumerate() {
                program.push(instruction.code(length - at - 1));
            }
        }
        program.push(Instruction::Return(otherwise).code(0));
        Self(program)
    }

    /// Has the socket go by it from now on, instead of by another.
    ///
    /// # Errors
    /// The kernel's.
    pub fn attach(&self, socket: &impl AsFd) -> std::io::Result<()> {
        SockRef::from(socket).attach_filter(&self.0)
    }

    /// The socket gets everything again. One without a filter stays as it is.
    ///
    /// # Errors
    /// The kernel's.
    pub fn detach(socket: &impl AsFd) -> std::io::Result<()> {
        match SockRef::from(socket).detach_filter() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

/// The four parts of an address, from that place on.
fn words(address: Ipv6Addr, at: u32) -> impl Iterator<Item = Check> {
    let bits = address.to_bits();
    (0..4_u32).map(move |word| Check::Word(at.wrapping_add(word * 4), (bits >> (96 - word * 32)) as u32))
}

enum Instruction {
    /// With its code and number.
    Plain(u32, u32),
    /// Goes on if what was loaded is that, else leaves the rule.
    Must(u32),
    Return(u32),
}

impl Check {
    fn load(self) -> Vec<Instruction> {
        use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_IND, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_W};
        let masked = |load, at, mask, value| {
            let and = Instruction::Plain(BPF_ALU | BPF_AND | BPF_K, mask);
            vec![Instruction::Plain(load, at), and, Instruction::Must(value)]
        };
        match self {
            Self::AfterHeader => vec![Instruction::Plain(BPF_LDX | BPF_B | BPF_MSH, 0)],
            Self::Byte(at, mask, value) => masked(BPF_LD | BPF_B | BPF_ABS, at, mask, value),
            Self::ByteBehind(at, mask, value) => masked(BPF_LD | BPF_B | BPF_IND, at, mask, value),
            Self::Word(at, value) => {
                vec![Instruction::Plain(BPF_LD | BPF_W | BPF_ABS, at), Instruction::Must(value)]
            }
        }
    }
}

impl Instruction {
    /// `rest` instructions of its rule come after it.
    fn code(&self, rest: usize) -> SockFilter {
        use libc::{BPF_JEQ, BPF_JMP, BPF_K, BPF_RET};
        let code = |code: u32| u16::try_from(code).expect("invariant: codes of BPF have 16 bits");
        match *self {
            Self::Plain(plain, operand) => SockFilter::new(code(plain), 0, 0, operand),
            Self::Must(value) => {
                let past = u8::try_from(rest).expect("invariant: a rule has less than 256 instructions");
                SockFilter::new(code(BPF_JMP | BPF_JEQ | BPF_K), 0, past, value)
            }
            Self::Return(verdict) => SockFilter::new(code(BPF_RET | BPF_K), 0, 0, verdict),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_millis(200);

    fn come(to: SocketAddr) -> std::io::Result<TcpStream> {
        TcpStream::connect_timeout(&to, SOON)
    }

    #[test]
    fn only_those_who_come_to_the_address_are_kept_out_and_who_is_in_stays() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let at = |ip: &str| SocketAddr::new(ip.parse().unwrap(), port);
        let (mut early, _) = (come(at("127.0.0.1")).unwrap(), listener.accept().unwrap());
        let shut = ["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
        Filter::no_openings(&shut).attach(&listener).unwrap();
        for kept_out in ["127.0.0.1", "::1"] {
            let error = come(at(kept_out)).expect_err(kept_out);
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{kept_out}: {error}");
        }
        come(at("127.0.0.2")).unwrap();
        std::io::Write::write_all(&mut early, b"still here").unwrap();
        Filter::detach(&listener).unwrap();
        Filter::detach(&listener).unwrap();
        come(at("127.0.0.1")).unwrap();
        come(at("::1")).unwrap();
    }
}
