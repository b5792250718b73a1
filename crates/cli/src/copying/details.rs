//! Options of cp and sync that concern how entries are created.

use clap::Args;
use clap::ValueEnum;
use linerate_wire::control::{Details, Fakes, IdentityRule, Keep};

use super::identities::{parse_chown, parse_map};

/// Options about the way in which entries are created, with rsync's names.
#[derive(Debug, Default, Args)]
pub struct DetailArgs {
    /// Set the owner and group of all entries: USER, USER:GROUP or :GROUP
    ///
    /// Names and numbers are those of the destination. Only root can set owners.
    #[arg(long, value_name = "USER:GROUP", value_parser = parse_chown, conflicts_with_all = ["usermap", "groupmap"])]
    chown: Option<Owners>,
    /// Map owners: FROM:TO,... (FROM: name, pattern, number, 10-99)
    ///
    /// FROM is a name, a pattern of names, a number, or a range of numbers. The first rule that matches an owner
    /// counts. An empty FROM matches owners without a name. TO is a name or number of the destination.
    #[arg(long, value_name = "FROM:TO,...", value_parser = parse_map)]
    usermap: Option<Rules>,
    /// Map groups, by rules like those of --usermap
    #[arg(long, value_name = "FROM:TO,...", value_parser = parse_map)]
    groupmap: Option<Rules>,
    /// Treat a link to a directory at DST as that directory
    ///
    /// Only links that stay below DST are followed; it doesn't matter who made them.
    #[arg(short = 'K', long)]
    keep_dirlinks: bool,
    /// Keep and compare access times
    #[arg(short = 'U', long)]
    atimes: bool,
    /// Reserve the space of each file before it is written
    #[arg(long)]
    preallocate: bool,
    /// Keep root's metadata in extended attributes: src, dst, both
    ///
    /// With dst, the destination stores metadata that only root can set in the extended attributes user.rsync.* of
    /// ordinary files, as rsync's --fake-super does: owners, special modes, devices, links, ACLs and attributes outside
    /// 'user.'. With src, the source reads this metadata. both does both.
    #[arg(long, value_name = "SIDE", value_enum, hide_possible_values = true)]
    fake_super: Option<FakingSide>,
}

/// The side that uses extended attributes for metadata that only root can set.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FakingSide {
    /// The source reads these attributes
    Src,
    /// The destination stores these attributes
    Dst,
    /// The source reads these attributes, and the destination stores them
    Both,
}

/// The rules of `--chown`, for users and for groups. This type and the next have their own names because clap would
/// treat a `Vec` as an argument that may be repeated.
type Owners = [std::option::Option<std::vec::Vec<IdentityRule>>; 2];
/// The rules of `--usermap` or `--groupmap`.
type Rules = std::vec::Vec<IdentityRule>;

impl DetailArgs {
    /// These options, in the form in which both ends get them.
    pub fn details(&self) -> Details {
        let [user, group] = self.chown.clone().unwrap_or_default();
        Details {
            users: self.usermap.clone().or(user).unwrap_or_default(),
            groups: self.groupmap.clone().or(group).unwrap_or_default(),
            atimes: self.atimes,
            preallocate: self.preallocate,
            keep_dirlinks: self.keep_dirlinks,
            fakes: self.fakes(),
            ..Details::default()
        }
    }

    fn fakes(&self) -> Fakes {
        match self.fake_super {
            None => Fakes::Neither,
            Some(FakingSide::Src) => Fakes::Sender,
            Some(FakingSide::Dst) => Fakes::Receiver,
            Some(FakingSide::Both) => Fakes::Both,
        }
    }

    /// Returns `keep`, in which owners are also kept if owners are mapped, and groups if groups are mapped.
    pub fn keeping(&self, keep: Keep) -> Keep {
        let Details { users, groups, .. } = self.details();
        Keep { owner: keep.owner || !users.is_empty(), group: keep.group || !groups.is_empty(), ..keep }
    }
}
