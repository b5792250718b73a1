//! `linerate fleet export`: prints a plan in the format of a scheduler.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use linerate_fleet::export::{ExportedTask, JobShape, gnu_parallel, slurm_script};
use linerate_fleet::kubernetes::{JobPlace, JobVolume, JobVolumes, kubernetes_job};
use linerate_fleet::plan::PlanDirectory;
use std::path::{Path, PathBuf, absolute};

use crate::common::failure::Failure;
use crate::exit::Code;

/// Arguments of `linerate fleet export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The scheduler: gnu-parallel, slurm or k8s-job
    #[arg(long = "for", value_name = "SCHEDULER", value_enum, hide_possible_values = true)]
    scheduler: Scheduler,
    /// Run at most N tasks at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tasks: u32,
    /// Name or path of linerate on the tasks' hosts
    #[arg(long, value_name = "FILE", default_value = "linerate", value_parser = NonEmptyStringValueParser::new())]
    program: String,
    /// For k8s-job: the image of the tasks' containers
    ///
    /// The image must contain linerate and ssh.
    #[arg(long, value_name = "IMAGE", required_if_eq("scheduler", "k8s-job"), value_parser = NonEmptyStringValueParser::new())]
    image: Option<String>,
    /// For k8s-job, set a volume: plan=CLAIM, source=/PATH, destination=
    ///
    /// NAME is plan, source or destination. VOLUME is the name of a PersistentVolumeClaim, or the path of a directory
    /// on each node. By default, the claims linerate-plan, linerate-source and linerate-destination are used. The
    /// destination has a volume only if the plan's DST is a path without a host.
    #[arg(long, value_name = "NAME=VOLUME", value_parser = JobPlace::parse)]
    volume: Vec<(JobPlace, JobVolume)>,
    /// The plan's directory
    plan: PathBuf,
    /// Options of each 'linerate fleet run'
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// A scheduler for which a plan can be exported.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scheduler {
    /// GNU parallel, on this host or over ssh
    GnuParallel,
    /// An array job
    Slurm,
    /// An indexed Job of Kubernetes
    #[value(name = "k8s-job")]
    KubernetesJob,
}

/// Prints the plan as a script or job for the scheduler.
pub fn run(args: &ExportArgs) -> Result<Code, Failure> {
    let directory = PlanDirectory::open(&args.plan)?;
    let plan = plan_path(&args.plan)?;
    let task = ExportedTask { program: args.program.clone(), plan, options: args.options.clone() };
    let volumes = args.volumes()?;
    let shape = JobShape { shards: directory.plan.shards.len(), at_once: args.tasks, ..JobShape::default() };
    let text = match args.scheduler {
        Scheduler::GnuParallel => gnu_parallel(&task, &shape),
        Scheduler::Slurm => slurm_script(&task, &shape),
        Scheduler::KubernetesJob => {
            let image = args.image.clone().unwrap_or_default();
            kubernetes_job(&task, &shape, &image, &directory.plan, &volumes)
        }
    };
    output!("{}", text.map_err(Failure::from)?.trim_end());
    Ok(Code::Done)
}

impl ExportArgs {
    /// The volumes that the user names; a failure if the user names one twice.
    fn volumes(&self) -> Result<JobVolumes, Failure> {
        let (has_volume, is_job) =
            (!self.volume.is_empty(), matches!(self.scheduler, Scheduler::KubernetesJob));
        if !is_job && (has_volume || self.image.is_some()) {
            let name = if has_volume { "volume" } else { "image" };
            return Err(Failure::usage(format!("--{name} needs --for k8s-job")));
        }
        let volumes: JobVolumes = self.volume.iter().cloned().collect();
        match volumes.len() == self.volume.len() {
            true => Ok(volumes),
            false => Err(Failure::usage("--volume names a volume twice".into())),
        }
    }
}

/// The absolute path of the plan, for scripts.
pub fn plan_path(plan: &Path) -> Result<String, Failure> {
    let path = absolute(plan).ok().and_then(|path| path.to_str().map(str::to_owned));
    path.ok_or_else(|| Failure::usage("the plan's path isn't valid UTF-8".into()))
}
