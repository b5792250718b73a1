//! rsync's options that may differ between the two ends, and the end to which each option applies.

use linerate_transfer::charsets::NameConversion;
use linerate_wire::control::{Charsets, Details, Fakes, IdentityRule};
use std::path::Path;

use super::line::Line;
use super::placing::PlacingWishes;
use crate::copying::identities::{parse_chown, parse_map};

/// The options of this module, as the user gave them.
#[derive(Clone, Debug, Default)]
pub struct DetailWishes {
    users: Option<Mapped>,
    groups: Option<Mapped>,
    /// The number of times that `--atimes` was given.
    pub atimes: u8,
    pub keep_dirlinks: bool,
    pub open_noatime: bool,
    pub preallocate: bool,
    pub munge: bool,
    pub acting: Option<Acting>,
    /// The number of times that `--xattrs` was given.
    pub xattrs: u8,
    pub drop_devices: bool,
    pub executability: bool,
    pub dig_holes: bool,
    pub placing: PlacingWishes,
    /// The character sets of names here and at the far end.
    charsets: Option<[String; 2]>,
    /// Options that apply only to the other end, set by `--remote-option`.
    far: FarWishes,
}

#[derive(Clone, Debug)]
struct Mapped {
    rules: Vec<IdentityRule>,
    by_chown: bool,
}

#[derive(Clone, Debug, Default)]
struct FarWishes {
    open_noatime: bool,
    preallocate: bool,
    munge: bool,
    acting: Option<Acting>,
    drop_devices: bool,
}

/// How an end handles operations that only root may do. If several of these options are given, the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acting {
    /// `--super`: the receiver tries operations that only root may do.
    AsRoot,
    /// `--no-super`: the receiver doesn't try operations that only root may do.
    AsUser,
    /// `--fake-super`: the receiver stores owners, modes and devices in extended attributes.
    Faking,
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Push,
    Pull,
    Within,
}

/// The directory to which munged links point. Links can't be munged if this directory exists.
const MUNGED_DIRECTORY: &str = "/rsyncd-munged";

/// Reads the value of `--usermap`.
pub fn usermap(line: &mut Line, text: &str) -> Result<(), String> {
    let rules = parse_map(text)?;
    set(&mut line.details.users, rules, false, ["--usermap", "--chown"])?;
    line.keep.owner = true;
    Ok(())
}

/// Reads the value of `--groupmap`.
pub fn groupmap(line: &mut Line, text: &str) -> Result<(), String> {
    let rules = parse_map(text)?;
    set(&mut line.details.groups, rules, false, ["--groupmap", "--chown"])?;
    line.keep.group = true;
    Ok(())
}

/// Reads `--chown`. A user in its value implies `--owner`, and a group implies `--group`.
pub fn chown(line: &mut Line, text: &str) -> Result<(), String> {
    let [users, groups] = parse_chown(text)?;
    if let Some(rules) = users {
        set(&mut line.details.users, rules, true, ["--chown", "--usermap"])?;
        line.keep.owner = true;
    }
    if let Some(rules) = groups {
        set(&mut line.details.groups, rules, true, ["--chown", "--groupmap"])?;
        line.keep.group = true;
    }
    Ok(())
}

/// Counts an `--xattrs`.
pub fn xattrs(line: &mut Line) {
    line.details.xattrs = line.details.xattrs.saturating_add(1);
    line.keep.xattrs = true;
}

/// Reads the value of `--iconv=LOCAL,REMOTE`.
pub fn iconv(line: &mut Line, text: &str) -> Result<(), String> {
    line.details.charsets = match text.split_once(',').unwrap_or((text, text)) {
        ("-", _) => None,
        (_, ".") => {
            return Err(format!(
                "--iconv={text}: the far end isn't asked for its character set: name the character set, as in --iconv=.,UTF-8"
            ));
        }
        (here, there) => Some([if here == "." { of_locale() } else { here.into() }, there.into()]),
    };
    Ok(())
}

/// `--no-iconv`: names aren't converted.
pub fn no_iconv(line: &mut Line) {
    line.details.charsets = None;
}

/// The name of the character set of this process's locale.
fn of_locale() -> String {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
    let locale = named.into_iter().find(|value| !value.is_empty()).unwrap_or_default();
    let codeset = locale.split_once('.').map(|(_, codeset)| codeset.split('@').next().unwrap_or_default());
    codeset.unwrap_or("ASCII").into()
}

fn set(
    mapped: &mut Option<Mapped>,
    rules: Vec<IdentityRule>,
    by_chown: bool,
    [this, other]: [&str; 2],
) -> Result<(), String> {
    match mapped {
        Some(earlier) if earlier.by_chown != by_chown => {
            Err(format!("{this} conflicts with an earlier {other}"))
        }
        Some(_) if by_chown => Err(format!("{this} can be given only once for users, and once for groups")),
        Some(_) => Err(format!("{this} can be given only once")),
        None => {
            *mapped = Some(Mapped { rules, by_chown });
            Ok(())
        }
    }
}

/// Reads `--remote-option`. Only options that may differ between the two ends are accepted.
pub fn remote_option(line: &mut Line, option: &str) -> Result<(), String> {
    let far = &mut line.details.far;
    match option {
        "--munge-links" => far.munge = true,
        "--no-munge-links" => far.munge = false,
        "--open-noatime" => far.open_noatime = true,
        "--no-open-noatime" => far.open_noatime = false,
        "--preallocate" => far.preallocate = true,
        "--super" => far.acting = Some(Acting::AsRoot),
        "--no-super" | "--no-fake-super" => far.acting = Some(Acting::AsUser),
        "--fake-super" => far.acting = Some(Acting::Faking),
        "--drop-D" => far.drop_devices = true,
        _ => {
            return Err(
                "only these options can be set for the far end alone: --fake-super, --munge-links, --open-noatime, --preallocate, --super, --no-super and --drop-D"
                    .into(),
            );
        }
    }
    Ok(())
}

impl DetailWishes {
    /// The reason why links can't be munged here, or names can't be converted.
    pub fn refusal(&self) -> Option<String> {
        let munged = (self.munge && Path::new(MUNGED_DIRECTORY).is_dir()).then(|| {
            format!("symlink munging is unsafe when a {MUNGED_DIRECTORY} directory exists: rename that one")
        });
        let charsets = || NameConversion::between(&self.charsets(Way::Push)?).err();
        munged.or_else(|| charsets().map(|why| format!("--iconv: {why}")))
    }

    /// The character sets of the sender and of the receiver.
    fn charsets(&self, way: Way) -> Option<Charsets> {
        let [here, there] = self.charsets.clone()?;
        let (from, to) = if way == Way::Pull { (there, here) } else { (here, there) };
        Some(Charsets { from, to })
    }

    /// Converts the text of a list of files to the sender's character set. The list has the character set of
    /// the host on which it is stored.
    pub fn listed(&self, text: Vec<u8>, is_far: bool, pulls: bool) -> Result<Vec<u8>, String> {
        let Some(conversion) = self.conversion().filter(|_| is_far != pulls) else { return Ok(text) };
        let converted = if is_far { conversion.forth(&text) } else { conversion.back(&text) };
        converted.ok_or_else(|| "--files-from: its names can't be converted as --iconv says".into())
    }

    /// The conversion of names from the far end's character set to this end's.
    pub fn conversion(&self) -> Option<NameConversion> {
        NameConversion::between(&self.charsets(Way::Pull)?).ok()?
    }

    /// These options in the form that is sent to both ends.
    pub fn details(&self, way: Way) -> Details {
        let far = &self.far;
        let rules = |mapped: &Option<Mapped>| mapped.as_ref().map(|mapped| mapped.rules.clone());
        let pulls = way == Way::Pull;
        let (munge, unmunge) = if pulls { (self.munge, far.munge) } else { (far.munge, self.munge) };
        Details {
            users: rules(&self.users).unwrap_or_default(),
            groups: rules(&self.groups).unwrap_or_default(),
            atimes: self.atimes > 0,
            open_noatime: self.open_noatime || self.atimes > 1 || pulls && far.open_noatime,
            preallocate: self.preallocate || !pulls && far.preallocate,
            munge,
            unmunge,
            keep_dirlinks: self.keep_dirlinks,
            superuser: self.superuser(way),
            executability: self.executability,
            fakes: self.fakes(way),
            dig_holes: self.dig_holes,
            placing: self.placing.placing(),
            charsets: self.charsets(way),
            divided: Vec::new(),
            journal_key: None,
        }
    }

    /// Whether the receiver acts as root; `None` if no option sets this. For a far receiver, only
    /// `--remote-option` can forbid it.
    fn superuser(&self, way: Way) -> Option<bool> {
        let here = self.acting.filter(|acting| *acting == Acting::AsRoot || way != Way::Push);
        let acting = self.far.acting.filter(|_| way != Way::Pull).or(here);
        acting.filter(|acting| *acting != Acting::Faking).map(|acting| acting == Acting::AsRoot)
    }

    /// The filter rule that leaves out the extended attributes in which `--fake-super` stores the properties of files.
    /// These attributes are sent only if `--xattrs` is given twice.
    pub fn attribute_rule(&self) -> Option<&'static str> {
        (self.xattrs == 1).then_some("-xs user.rsync.%*")
    }

    /// Which ends use `--fake-super`. In a copy within one host, this end's option counts for both ends,
    /// unless `--remote-option` sets the other end's.
    fn fakes(&self, way: Way) -> Fakes {
        let is_faking = |acting: Option<Acting>| acting == Some(Acting::Faking);
        let (here, there) = (is_faking(self.acting), is_faking(self.far.acting));
        match way {
            Way::Push => Fakes::of(here, there),
            Way::Pull => Fakes::of(there, here),
            Way::Within => Fakes::of(here, is_faking(self.far.acting.or(self.acting))),
        }
    }

    /// Whether the receiver may try to create device files. Without options about this, only root may; the user of a receiver
    /// on another host isn't known.
    pub fn may_make_devices(&self, way: Way) -> bool {
        let may = || way == Way::Push || rustix::process::geteuid().is_root() || self.acting.is_some();
        self.superuser(way).unwrap_or_else(may)
    }

    /// Whether a far receiver munges links: it puts a prefix before their targets, and reports don't show
    /// that prefix.
    pub fn munges_at_the_far_end(&self, way: Way) -> bool {
        self.far.munge && way != Way::Pull
    }

    /// Whether the receiver leaves out devices and special files.
    pub fn drops_devices(&self, way: Way) -> bool {
        self.drop_devices && way != Way::Push || self.far.drop_devices && way != Way::Pull
    }
}
