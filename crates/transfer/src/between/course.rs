//! The order of the messages that two agents exchange through their client.

use linerate_wire::control::{Message, Source, Tally, Totals};
use linerate_wire::stages::{Stages, Usage};

use super::{Carriage, CarriedSums, DataWay, FarRole, FarSums};
use crate::base::problem::TransferError;
use crate::net::session::out_of_turn;

/// The stages and usage in an agent's last message.
type LastReport = (Stages, Usage);

/// The destination of a message that the client got from an agent.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// The message is for the other agent.
    HandOn,
    /// The message is for the client itself.
    Keep,
}

/// The progress of the exchange between the two agents.
pub struct Course {
    carriage: Carriage,
    sources: Option<Vec<Source>>,
    within: Option<bool>,
    /// Whether the receiver wants all entries to be offered first; `None` until the receiver is ready.
    offers: Option<bool>,
    sent: Option<(Totals, u32)>,
    /// The receiver has requested a second round.
    again: bool,
    committed: Option<Totals>,
    tallies: (Option<Tally>, Option<Tally>),
}

impl Course {
    /// The state before the first message of the transfer.
    pub fn new(carriage: Carriage) -> Self {
        Self {
            carriage,
            sources: None,
            within: None,
            offers: None,
            sent: None,
            again: false,
            committed: None,
            tallies: (None, None),
        }
    }

    /// True once the receiver has reported that all entries are in place.
    pub fn is_committed(&self) -> bool {
        self.committed.is_some()
    }

    /// Decides what to do with a message.
    ///
    /// # Errors
    /// If the agent in this `role` may not send the message now.
    pub fn judge(&mut self, message: &Message, role: FarRole) -> Result<Fate, TransferError> {
        let fate = match role {
            FarRole::Sender => self.of_sender(message),
            FarRole::Receiver => self.of_receiver(message),
        };
        fate.ok_or_else(out_of_turn)
    }

    fn of_sender(&mut self, message: &Message) -> Option<Fate> {
        match message {
            Message::Sources(sources) if self.sources.is_none() && !sources.is_empty() => {
                self.sources = Some(sources.clone());
            }
            Message::Offer(_) if self.offers == Some(true) && self.sent.is_none() => {}
            Message::MoreStreams(_) if self.carriage.way == DataWay::ReceiverDials => {}
            &Message::Sent { totals, streams, .. } if self.may_have_sent() => {
                self.sent = Some((totals, streams));
            }
            Message::Tally(tally) if self.is_committed() && self.tallies.0.is_none() => {
                self.tallies.0 = Some(tally.clone());
                return Some(Fate::Keep);
            }
            _ => return None,
        }
        Some(Fate::HandOn)
    }

    fn may_have_sent(&self) -> bool {
        self.offers.is_some() && self.sent.is_none() && !self.is_committed()
    }

    fn of_receiver(&mut self, message: &Message) -> Option<Fate> {
        match message {
            Message::Within(within) if self.is_landing() && self.within.is_none() => {
                self.within = Some(*within);
            }
            Message::Ready { offers, .. } if self.is_ready_in_turn() => self.offers = Some(*offers),
            Message::Wanted(_) | Message::Blocks(_) if self.offers == Some(true) => {}
            Message::Skip { .. } if self.offers.is_some() => {}
            Message::Again(_) if self.carriage.verify && !self.again && self.has_all() => {
                (self.again, self.sent) = (true, None);
            }
            Message::Committed(landed) if self.has_all() => self.committed = Some(*landed),
            Message::Delivered(_) if self.carriage.digests && self.offers.is_some() => {
                return Some(Fate::Keep);
            }
            Message::Tally(tally) if self.is_committed() && self.tallies.1.is_none() => {
                self.tallies.1 = Some(tally.clone());
                return Some(Fate::Keep);
            }
            _ => return None,
        }
        Some(Fate::HandOn)
    }

    /// True while the receiver knows the sources but hasn't reported that it is ready.
    fn is_landing(&self) -> bool {
        self.carriage.digests && self.sources.is_some() && self.offers.is_none()
    }

    fn is_ready_in_turn(&self) -> bool {
        let is_reported = self.within.is_some() || !self.carriage.digests;
        self.sources.is_some() && self.offers.is_none() && is_reported
    }

    fn has_all(&self) -> bool {
        self.sent.is_some() && !self.is_committed()
    }

    /// The result of the transfer, if both agents have sent their last message.
    pub fn end(
        self,
        (sender, receiver): (Option<LastReport>, Option<LastReport>),
        payload_seconds: f64,
    ) -> Option<CarriedSums> {
        let (sent, streams) = self.sent?;
        let end = |report, tally: Option<Tally>| Some(FarSums { report, tally: tally.unwrap_or_default() });
        Some(CarriedSums {
            sources: self.sources?,
            within: self.within.unwrap_or_default(),
            landed: self.committed?,
            sent,
            streams,
            sender: end(sender?, self.tallies.0)?,
            receiver: end(receiver?, self.tallies.1)?,
            payload_seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::path::RelPath;

    fn course(digests: bool, way: DataWay) -> Course {
        Course::new(Carriage { digests, verify: digests, way })
    }

    fn sources() -> Message {
        Message::Sources(vec![Source { argument: 0, name: RelPath::new("a").unwrap(), directory: false }])
    }

    fn sent() -> Message {
        Message::Sent { totals: Totals::default(), streams: 1, complete: true }
    }

    /// Passes the messages to [`Course::judge`] in their order; true if all of them are accepted.
    fn takes(course: &mut Course, said: &[(FarRole, Message)]) -> bool {
        said.iter().all(|(role, message)| course.judge(message, *role).is_ok())
    }

    #[test]
    fn a_transfer_with_a_second_round_is_carried() {
        use FarRole::{Receiver, Sender};
        let mut course = course(true, DataWay::SenderDials);
        let landed = Message::Committed(Totals::default());
        let again = Message::Again(vec![(0, RelPath::root())]);
        let said = [
            (Sender, sources()),
            (Receiver, Message::Within(true)),
            (Receiver, Message::Ready { offers: true, window: 23 }),
            (Sender, Message::Offer(Vec::new())),
            (Receiver, Message::Wanted(Vec::new())),
            (Sender, sent()),
            (Receiver, again.clone()),
            (Sender, sent()),
            (Receiver, landed.clone()),
        ];
        assert!(takes(&mut course, &said));
        assert!(course.judge(&again, Receiver).is_err(), "a third round");
        assert!(course.judge(&landed, Receiver).is_err(), "twice");
    }

    #[test]
    fn neither_says_what_is_the_others_to_say() {
        let receivers = [
            Message::Ready { offers: false, window: 23 },
            Message::Committed(Totals::default()),
            Message::Skip { file: 0 },
        ];
        for message in receivers {
            assert!(
                course(false, DataWay::SenderDials).judge(&message, FarRole::Sender).is_err(),
                "{message:?}"
            );
        }
        for message in
            [sources(), sent(), Message::Offer(Vec::new()), Message::MoreStreams(1), Message::UseTunnel]
        {
            assert!(
                course(false, DataWay::ReceiverDials).judge(&message, FarRole::Receiver).is_err(),
                "{message:?}"
            );
        }
    }

    #[test]
    fn nothing_comes_before_its_turn() {
        use FarRole::{Receiver, Sender};
        assert!(!takes(
            &mut course(false, DataWay::SenderDials),
            &[(Receiver, Message::Ready { offers: false, window: 23 })]
        ));
        assert!(!takes(
            &mut course(true, DataWay::SenderDials),
            &[(Sender, sources()), (Receiver, Message::Ready { offers: false, window: 23 })]
        ));
        let early = Message::Committed(Totals::default());
        let said = [(Sender, sources()), (Receiver, Message::Ready { offers: false, window: 23 })];
        let mut begun = course(false, DataWay::SenderDials);
        assert!(takes(&mut begun, &said));
        assert!(begun.judge(&early, Receiver).is_err(), "before Sent");
        assert!(begun.judge(&Message::MoreStreams(1), Sender).is_err(), "the sender dials itself");
        assert!(begun.judge(&sources(), Sender).is_err(), "twice");
    }
}
