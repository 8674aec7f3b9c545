//! `pelton run`: the script's actions in its order, each job to its end.

use std::{
    io::{IsTerminal, Write},
    path::Path,
    sync::Arc,
};

use pelton_core::{dead_letter::DeadLetter, error::RuntimeError};
use pelton_engine::{Control, Outcome, Output, OutputFormat, Progress, RunReport, Settings, StateChoice};
use pelton_sql::job::{Action, Job};

use crate::{
    arguments::{OutputChoice, RunOptions},
    fault::Fault,
    script::{Planned, plan},
    watch::{self, Watch},
};

pub(crate) fn run(options: &RunOptions) -> Result<(), Fault> {
    let format = match options.output {
        Some(OutputChoice::Table) => OutputFormat::Table,
        Some(OutputChoice::Jsonl) => OutputFormat::JsonLines,
        Some(OutputChoice::Csv) => OutputFormat::Csv,
        None if std::io::stdout().is_terminal() => OutputFormat::Table,
        None => OutputFormat::JsonLines,
    };
    let output = Output::new(format, Box::new(std::io::stdout()));
    let Planned { actions, components, name } = plan(&options.script, Arc::clone(&output))?;
    let file = &options.script.script;
    // Every job's settings are checked before anything runs or is printed.
    let mut steps = Vec::new();
    let several = actions.iter().filter(|action| matches!(action, Action::Run(_))).count() > 1;
    for action in actions {
        steps.push(match action {
            Action::Run(job) => {
                // Several jobs of one script have states of their own.
                let jobs = steps.iter().filter(|step| matches!(step, Step::Run(..))).count();
                let name = if several && job.name.is_empty() { format!("{name}-{}", jobs + 1) } else { name.clone() };
                let settings = settings(&job, options, &name).map_err(|error| Fault::of_job(file, error))?;
                Step::Run(job, settings)
            }
            other => Step::Show(other),
        });
    }
    let control = Control::default();
    watch::stop_on_signals(&control);
    for step in steps {
        match step {
            Step::Show(Action::Rows(batch)) => output.rows(&batch).and_then(|()| output.finish())?,
            Step::Show(Action::Text(text)) => print_text(&text)?,
            Step::Show(Action::Run(_)) => {}
            Step::Run(job, settings) => {
                let report = run_job(job, settings, options, &components, &control, file)?;
                if report.outcome == Outcome::Stopped {
                    break;
                }
            }
        }
    }
    Ok(())
}

#[expect(clippy::large_enum_variant, reason = "a script has a handful of them")]
enum Step {
    Show(Action),
    Run(Job, Settings),
}

fn settings(job: &Job, options: &RunOptions, name: &str) -> Result<Settings, RuntimeError> {
    let mut set = job.settings.clone();
    set.extend(options.script.settings.iter().cloned());
    if let Some(workers) = options.parallelism {
        set.insert("parallelism.default".to_owned(), workers.to_string());
    }
    let mut settings = Settings::read(&set, if job.name.is_empty() { name } else { &job.name })?;
    if let Some(dir) = &options.state_dir {
        settings.state_dir = Some(dir.clone());
    }
    Ok(settings)
}

fn run_job(
    job: Job,
    settings: Settings,
    options: &RunOptions,
    components: &pelton_engine::Components,
    control: &Control,
    file: &Path,
) -> Result<RunReport, Fault> {
    let choice = if options.fresh { StateChoice::Fresh } else { StateChoice::Resume };
    let progress = Arc::new(Progress::default());
    let watch = Watch::start(&progress);
    let notice = |text: &str| watch.say(text);
    let done = pelton_engine::run(job, settings, choice, components, control, &progress, &notice);
    watch.stop();
    let report = match done {
        Ok(report) => report,
        // Whoever read our rows has seen enough.
        Err(RuntimeError::Storage { action, reason }) if action == "print rows" && reason.contains("Broken pipe") => std::process::exit(0),
        Err(error) => return Err(Fault::of_job(file, error)),
    };
    close(&report);
    Ok(report)
}

/// What has to be said at the end.
fn close(report: &RunReport) {
    let mut out = std::io::stderr().lock();
    let mut say = |text: String| {
        // Nobody is left to tell if standard error is closed.
        let _ = writeln!(out, "{text}");
    };
    let progress = report.progress;
    if progress.bad > 0 {
        let letters = if progress.bad == 1 { "record is a dead letter" } else { "records are dead letters" };
        let place = report.state_dir.as_ref().map_or_else(String::new, |dir| format!("; list them with: pelton dlq ls --state-dir {}", dir.display()));
        say(format!("{} {letters}{place}", progress.bad));
        report.letters.iter().for_each(|letter| say(format!("  {}", line(letter))));
        let more = progress.bad.saturating_sub(report.letters.len() as u64);
        if more > 0 && !report.letters.is_empty() {
            say(format!("  … and {more} more"));
        }
    }
    if progress.late > 0 {
        say(format!("{} rows came too late for their window or join and were left out", progress.late));
    }
    if report.outcome == Outcome::Stopped {
        say(match &report.state_dir {
            Some(dir) => format!("stopped at checkpoint {}; the next run goes on from there ({})", progress.epoch, dir.display()),
            None => "stopped".to_owned(),
        });
    }
}

/// A dead letter on one line.
pub(crate) fn line(letter: &DeadLetter) -> String {
    let place = if letter.topic.is_empty() {
        "made in the job".to_owned()
    } else if letter.topic.contains('/') || letter.topic.contains('.') && letter.partition.0 == 0 {
        format!("{}, offset {}", letter.topic, letter.offset.0)
    } else {
        format!("{}/{}, offset {}", letter.topic, letter.partition.0, letter.offset.0)
    };
    format!("{} ({place}) {}: {}", letter.table, letter.step, letter.reason)
}

pub(crate) fn print_text(text: &str) -> Result<(), Fault> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let printed = write!(std::io::stdout().lock(), "{text}{end}");
    printed.map_err(|error| RuntimeError::Storage { action: "print".to_owned(), reason: error.to_string() }.into())
}
