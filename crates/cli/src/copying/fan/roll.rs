//! The list of copies that may form a chain or tree. The copies log in at the same time. Each copy stores
//! here the values that the others need, and waits for theirs.

use linerate_transfer::chain::{ChainLead, ChainShape};
use linerate_transfer::lock::lock;
use linerate_transfer::session::{Reporter, new_cookie};
use linerate_wire::control::{ChainLink, ChainNext, Cookie, Listening, Problem};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::args::HandingOn;

/// How long the first copy that has logged in waits for the others: at least this time, and at least twice as
/// long as its own login took. The wait is longer than in a star, because each copy that comes too late uses this
/// host's link once more.
const GATHERING: Duration = Duration::from_secs(10);
/// The interval at which a waiting copy checks whether the user has interrupted.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The list of copies that may form a chain or tree.
pub struct ChainRoll {
    /// The names of the hosts in messages.
    names: Vec<String>,
    shape: HandingOn,
    state: Mutex<RollState>,
    changed: Condvar,
    made: Instant,
    interrupted: Arc<AtomicBool>,
}

struct RollState {
    calls: Vec<RollCall>,
    /// The addresses at which each host's agent listens.
    listening: Vec<Option<Listening>>,
    /// When the first copy was ready, and how long it waits.
    first: Option<(Instant, Duration)>,
    chain: Option<Arc<FormedChain>>,
    is_formed: bool,
}

/// The state of one of the copies.
enum RollCall {
    Awaited,
    Ready { keys: ChainKeys, reporter: Reporter },
    Linked,
    Gone,
}

/// The public keys of a session: the client's and the agent's.
type ChainKeys = (Vec<u8>, Vec<u8>);

/// A chain or tree that has been formed.
pub struct FormedChain {
    /// The data that the transfers to all its hosts share.
    pub lead: Arc<ChainLead>,
    /// The numbers of the copies, in the order of their positions.
    order: Vec<usize>,
    /// The names of the hosts in messages.
    names: Vec<String>,
    keys: Vec<ChainKeys>,
    cookies: Vec<Cookie>,
    reporters: Vec<Reporter>,
}

/// A copy that is on the list. When this value is dropped, the other copies no longer wait for it.
pub struct RollMember<'a> {
    roll: &'a ChainRoll,
    number: usize,
}

/// The position of a copy in the chain or tree.
pub struct RollPlace {
    /// The chain or tree to which the position belongs.
    pub chain: Arc<FormedChain>,
    /// The position, from 0.
    pub place: usize,
}

impl ChainRoll {
    /// A list for copies to these hosts. The waits end if `interrupted` is set.
    pub fn new(names: Vec<String>, shape: HandingOn, interrupted: Arc<AtomicBool>) -> Self {
        let calls = names.iter().map(|_| RollCall::Awaited).collect();
        let listening = vec![None; names.len()];
        let state = RollState { calls, listening, first: None, chain: None, is_formed: false };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        Self { names, shape, state, changed, made: Instant::now(), interrupted }
    }

    /// The shape in which the hosts forward the data.
    pub fn shape(&self) -> HandingOn {
        self.shape
    }

    /// The entry of the copy with this number.
    pub fn member(&self, number: usize) -> RollMember<'_> {
        RollMember { roll: self, number }
    }

    /// Waits until `look` returns a value, or the user interrupts.
    fn wait<T>(&self, mut look: impl FnMut(&mut RollState) -> Option<T>) -> Option<T> {
        let mut state: MutexGuard<'_, RollState> = lock(&self.state);
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(found) = look(&mut state) {
                self.changed.notify_all();
                return Some(found);
            }
            state =
                self.changed.wait_timeout(state, CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn say(&self, number: usize, call: RollCall) {
        lock(&self.state).calls[number] = call;
        self.changed.notify_all();
    }
}

impl RollState {
    /// Forms the chain or tree of all copies that are ready, once no other copy is waited for.
    fn form(&mut self, roll: &ChainRoll) {
        let is_awaited = self.calls.iter().any(|call| matches!(call, RollCall::Awaited));
        let is_over = self.first.is_some_and(|(begun, patience)| begun.elapsed() >= patience);
        if self.is_formed || is_awaited && !is_over {
            return;
        }
        self.is_formed = true;
        let ready = self.calls.iter().enumerate().filter_map(|(number, call)| match call {
            RollCall::Ready { keys, reporter } => Some((number, keys.clone(), reporter.clone())),
            _ => None,
        });
        self.chain = FormedChain::of(ready.collect(), roll).map(Arc::new);
    }
}

impl FormedChain {
    /// The chain or tree of the copies that are ready; `None` for fewer than two.
    fn of(ready: Vec<(usize, ChainKeys, Reporter)>, roll: &ChainRoll) -> Option<Self> {
        let cookies = ready.iter().map(|_| new_cookie()).collect::<Result<Vec<_>, _>>().ok()?;
        let shape = ChainShape::new(ready.len(), roll.shape.branches());
        let lead = ChainLead::new(shape).ok().filter(|_| ready.len() > 1)?;
        let order: Vec<_> = ready.iter().map(|(number, ..)| *number).collect();
        let names = order.iter().map(|number| roll.names[*number].clone()).collect();
        let (keys, reporters) = ready.into_iter().map(|(_, keys, reporter)| (keys, reporter)).unzip();
        Some(Self { lead, order, names, keys, cookies, reporters })
    }

    /// The name of the host at this position in messages.
    pub fn name(&self, place: usize) -> &str {
        self.names.get(place).map_or("", |name| name)
    }

    /// Reports a problem of the sources in the copies to all hosts.
    pub fn problem(&self, problem: &Problem) {
        self.reporters.iter().for_each(|reporter| reporter.problem(problem.clone()));
    }
}

impl RollPlace {
    /// The message that informs an agent of its position.
    pub fn link(&self) -> Option<ChainLink> {
        let (chain, place) = (&self.chain, self.place);
        let previous = match chain.lead.shape().before(place) {
            None => chain.keys.first()?.0.clone(),
            Some(before) => chain.keys.get(before)?.1.clone(),
        };
        Some(ChainLink {
            previous,
            cookie: *chain.cookies.get(place)?,
            key: chain.lead.source().key(place)?.clone(),
            place: u8::try_from(place).ok()?,
            hosts: u8::try_from(chain.order.len()).ok()?,
        })
    }

    /// The message that informs an agent of the host at `place`, to which it forwards and which has these
    /// addresses.
    pub fn next(&self, place: usize, candidates: Vec<SocketAddr>) -> Option<ChainNext> {
        let chain = &self.chain;
        Some(ChainNext {
            place: u8::try_from(place).ok()?,
            public_key: chain.keys.get(place)?.1.clone(),
            cookie: *chain.cookies.get(place)?,
            candidates,
            behind: u8::try_from(chain.lead.shape().behind(place)).ok()?,
        })
    }
}

impl RollMember<'_> {
    /// Marks the copy as ready, and waits for the others. Returns its position; `None` if there is no chain
    /// or tree, or if it was formed without this copy.
    pub fn gather(&self, keys: ChainKeys, reporter: Reporter) -> Option<RollPlace> {
        let roll = self.roll;
        roll.say(self.number, RollCall::Ready { keys, reporter });
        roll.wait(|state| {
            let now = Instant::now();
            let patience = || (now, GATHERING.max(2 * now.saturating_duration_since(roll.made)));
            state.first.get_or_insert_with(patience);
            state.form(roll);
            state.is_formed.then(|| {
                let chain = state.chain.clone()?;
                let place = chain.order.iter().position(|number| *number == self.number)?;
                Some(RollPlace { chain, place })
            })
        })?
    }

    /// Records where the copy's agent listens, and waits until the hosts to which it forwards listen too.
    /// Returns the positions of these hosts and where each listens; `None` for a host that is lost.
    pub fn listens(&self, at: &RollPlace, listening: Listening) -> Vec<(usize, Option<Listening>)> {
        lock(&self.roll.state).listening[self.number] = Some(listening);
        self.roll.changed.notify_all();
        let next = at.chain.lead.shape().next(at.place);
        next.map(|place| (place, self.listening_of(at.chain.order[place]))).collect()
    }

    fn listening_of(&self, number: usize) -> Option<Listening> {
        self.roll.wait(|state| match (&state.listening[number], &state.calls[number]) {
            (_, RollCall::Gone) => Some(None),
            (Some(listening), _) => Some(Some(listening.clone())),
            _ => None,
        })?
    }

    /// Records that the copy's host has been connected to the hosts to which it forwards, as far as possible.
    pub fn linked(&self) {
        self.roll.say(self.number, RollCall::Linked);
    }

    /// Waits until all hosts are connected or lost.
    pub fn all_linked(&self, at: &RollPlace) {
        self.roll.wait(|state| {
            let is_there = |number: &usize| matches!(state.calls[*number], RollCall::Linked | RollCall::Gone);
            at.chain.order.iter().all(is_there).then_some(())
        });
    }
}

impl Drop for RollMember<'_> {
    fn drop(&mut self) {
        self.roll.say(self.number, RollCall::Gone);
    }
}
