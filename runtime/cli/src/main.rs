//! The binary `pelton`: runs, checks and explains SQL jobs, and looks at plugins, schemas and dead letters.
//!
//! Standard output holds rows and texts that were asked for, nothing else; everything about the run goes to standard
//! error. Exit codes: 0 done, 1 the job failed, 2 script or settings refused, 3 recovery impossible.

mod arguments;
mod fault;
mod script;
mod run;
mod show;
mod plugin;
mod schema;
mod dlq;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command, DlqCommand, PluginCommand, SchemaCommand};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    watch::start_logging(arguments.verbose);
    let done = match &arguments.command {
        Command::Run(options) => run::run(options),
        Command::Check(options) => show::check(options),
        Command::Explain(options) => show::explain(options),
        Command::Plugin { command: PluginCommand::Inspect { file, output } } => plugin::inspect(file, *output),
        Command::Schema { command: SchemaCommand::Infer(options) } => schema::infer(options),
        Command::Dlq { command: DlqCommand::Ls(options) } => dlq::list(options),
        Command::Dlq { command: DlqCommand::Show(options) } => dlq::show(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            fault.print();
            ExitCode::from(fault.exit_code())
        }
    }
}
