//! The members of a chain: copies that log in at the same time leave here the values that the others need, and wait for theirs.

use linerate_transfer::chain::ChainLead;
use linerate_transfer::lock::lock;
use linerate_transfer::session::{Reporter, new_cookie};
use linerate_wire::control::{ChainLink, Cookie, Listening, Problem};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The least time that the first copy that has logged in waits for the others; it waits at least twice as long as its own login took.
/// This is longer than in a star, because each late copy uses this host's link once more.
const GATHERING: Duration = Duration::from_secs(10);
/// The interval at which a waiting copy checks whether the user interrupts.
const LOOK: Duration = Duration::from_millis(200);

/// The list of copies that may form a chain.
pub struct ChainRoll {
    state: Mutex<RollState>,
    changed: Condvar,
    made: Instant,
    interrupted: Arc<AtomicBool>,
}

struct RollState {
    calls: Vec<RollCall>,
    /// The addresses at which they listen.
    listening: Vec<Option<Listening>>,
    /// The time at which the first copy was ready, and how long it waits.
    first: Option<(Instant, Duration)>,
    chain: Option<Arc<FormedChain>>,
    is_formed: bool,
}

/// The state of one of them.
enum RollCall {
    Awaited,
    Ready { keys: ChainKeys, reporter: Reporter },
    Linked,
    Gone,
}

/// The public keys of a session: this end's and the agent's.
type ChainKeys = (Vec<u8>, Vec<u8>);

/// A chain that was formed.
pub struct FormedChain {
    /// The state that their transfers share.
    pub lead: Arc<ChainLead>,
    /// Their numbers, in the order of the chain.
    order: Vec<usize>,
    keys: Vec<ChainKeys>,
    cookies: Vec<Cookie>,
    reporters: Vec<Reporter>,
}

/// A copy that is on the list; the others don't wait for it once this is dropped.
pub struct RollMember<'a> {
    roll: &'a ChainRoll,
    number: usize,
}

/// A copy's place in the chain.
pub struct RollPlace {
    /// The chain.
    pub chain: Arc<FormedChain>,
    /// The place, from 0.
    pub place: usize,
}

impl ChainRoll {
    /// A list for N copies, which end if `interrupted` is set.
    pub fn new(members: usize, interrupted: Arc<AtomicBool>) -> Self {
        let calls = std::iter::repeat_with(|| RollCall::Awaited).take(members).collect();
        let listening = vec![None; members];
        let state = RollState { calls, listening, first: None, chain: None, is_formed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), made: Instant::now(), interrupted }
    }

    /// The copy of this number.
    pub fn member(&self, number: usize) -> RollMember<'_> {
        RollMember { roll: self, number }
    }

    /// Waits until `look` finds something, or the user interrupts.
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
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn say(&self, number: usize, call: RollCall) {
        lock(&self.state).calls[number] = call;
        self.changed.notify_all();
    }
}

impl RollState {
    /// Forms the chain of all copies that are ready, once no other is awaited.
    fn form(&mut self) {
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
        self.chain = FormedChain::of(ready.collect()).map(Arc::new);
    }
}

impl FormedChain {
    /// `None` for fewer than two copies.
    fn of(ready: Vec<(usize, ChainKeys, Reporter)>) -> Option<Self> {
        let cookies = ready.iter().map(|_| new_cookie()).collect::<Result<Vec<_>, _>>().ok()?;
        let lead = ChainLead::new(ready.len()).ok().filter(|_| ready.len() > 1)?;
        let order = ready.iter().map(|(number, ..)| *number).collect();
        let (keys, reporters) = ready.into_iter().map(|(_, keys, reporter)| (keys, reporter)).unzip();
        Some(Self { lead, order, keys, cookies, reporters })
    }

    /// Reports a problem of the sources in the copies to all hosts.
    pub fn problem(&self, problem: &Problem) {
        self.reporters.iter().for_each(|reporter| reporter.problem(problem.clone()));
    }
}

impl RollPlace {
    /// The message to the agent about its place.
    pub fn link(&self) -> Option<ChainLink> {
        let (chain, place) = (&self.chain, self.place);
        let before = place.checked_sub(1);
        let previous = match before {
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

    /// The key and the cookie of the next host, if there is one.
    pub fn next(&self) -> Option<(Vec<u8>, Cookie)> {
        let place = self.place + 1;
        Some((self.chain.keys.get(place)?.1.clone(), *self.chain.cookies.get(place)?))
    }
}

impl RollMember<'_> {
    /// Marks the copy as ready, and waits for the others. `None` if they don't form a chain, or have formed one without it.
    pub fn gather(&self, keys: ChainKeys, reporter: Reporter) -> Option<RollPlace> {
        let roll = self.roll;
        roll.say(self.number, RollCall::Ready { keys, reporter });
        roll.wait(|state| {
            let now = Instant::now();
            let patience = || (now, GATHERING.max(2 * now.saturating_duration_since(roll.made)));
            state.first.get_or_insert_with(patience);
            state.form();
            state.is_formed.then(|| {
                let chain = state.chain.clone()?;
                let place = chain.order.iter().position(|number| *number == self.number)?;
                Some(RollPlace { chain, place })
            })
        })?
    }

    /// Notes where its agent listens, waits until the next host listens too, and returns where. `None` if there is no next host, or it is gone.
    pub fn listens(&self, at: &RollPlace, listening: Listening) -> Option<Listening> {
        lock(&self.roll.state).listening[self.number] = Some(listening);
        self.roll.changed.notify_all();
        let next = *at.chain.order.get(at.place + 1)?;
        self.roll.wait(|state| match (&state.listening[next], &state.calls[next]) {
            (_, RollCall::Gone) => Some(None),
            (Some(listening), _) => Some(Some(listening.clone())),
            _ => None,
        })?
    }

    /// Notes that it is connected to the next host, if that is possible.
    pub fn linked(&self) {
        self.roll.say(self.number, RollCall::Linked);
    }

    /// Waits until all hosts in the chain are connected, or gone.
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
