//! `pelton check` and `pelton explain`: a script planned, not run.

use pelton_engine::{Output, OutputFormat, Settings};
use pelton_sql::job::Action;

use crate::{
    arguments::ScriptOptions,
    fault::Fault,
    run::print_text,
    script::{Planned, plan},
};

fn planned(options: &ScriptOptions) -> Result<Planned, Fault> {
    let planned = plan(options, Output::new(OutputFormat::Table, Box::new(std::io::stdout())))?;
    for action in &planned.actions {
        if let Action::Run(job) = action {
            let mut set = job.settings.clone();
            set.extend(options.settings.iter().cloned());
            Settings::read(&set, &planned.name).map_err(|error| Fault::of_job(&options.script, error))?;
        }
    }
    Ok(planned)
}

pub(crate) fn check(options: &ScriptOptions) -> Result<(), Fault> {
    planned(options).map(drop)
}

pub(crate) fn explain(options: &ScriptOptions) -> Result<(), Fault> {
    let mut is_first = true;
    for action in planned(options)?.actions {
        let text = match action {
            Action::Run(job) => job.graph.render(),
            Action::Text(text) => text,
            Action::Rows(_) => continue,
        };
        if !std::mem::replace(&mut is_first, false) {
            print_text("")?;
        }
        print_text(&text)?;
    }
    Ok(())
}
