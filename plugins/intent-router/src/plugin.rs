//! The plugin around it.

use std::{cell::RefCell, fmt::Write};

use pelton_plugin::router::{
    BatchContext, Decision, Failure, Guest, Message, Target,
    lifecycle::{self, Info, Parts},
};

use crate::{Record, Route, Settings};

struct IntentRouter;

thread_local! {
    static ROUTE: RefCell<Option<Route>> = const { RefCell::new(None) };
}

impl lifecycle::Guest for IntentRouter {
    fn describe() -> Info {
        Info {
            name: "intent-router".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            description: "Routes prompts by meaning (nearest labelled examples) and by header and field patterns".to_owned(),
            needs: Parts::HEADERS,
        }
    }

    fn init(config: String) -> Result<(), String> {
        let route = Route::new(Settings::read(&config)?);
        ROUTE.with(|cell| *cell.borrow_mut() = Some(route));
        Ok(())
    }
}

impl Guest for IntentRouter {
    fn route(_context: BatchContext, batch: Vec<Message>) -> Vec<Result<Decision, Failure>> {
        ROUTE.with(|cell| match cell.borrow_mut().as_mut() {
            None => batch.iter().map(|_| Err(Failure::Fatal("route was called before init".to_owned()))).collect(),
            Some(route) => batch.iter().map(|message| decide(route, message)).collect(),
        })
    }
}

fn decide(route: &mut Route, message: &Message) -> Result<Decision, Failure> {
    let adds_headers = route.adds_headers();
    let record = Record { value: message.value.as_deref(), headers: &message.headers };
    let verdict = route.decide(&record).map_err(Failure::InvalidInput)?;
    let mut add_headers = Vec::new();
    if adds_headers {
        add_headers.push(("intent".to_owned(), verdict.topic.as_bytes().to_vec()));
        if let Some(score) = verdict.score {
            let mut text = String::new();
            let thousandths = (score * 1_000.0) as u32;
            let _ = write!(text, "{}.{:03}", thousandths / 1_000, thousandths % 1_000);
            add_headers.push(("intent-score".to_owned(), text.into_bytes()));
        }
    }
    Ok(Decision { targets: vec![Target { topic: verdict.topic.to_owned(), key: None }], add_headers })
}

pelton_plugin::router::export_router!(IntentRouter with_types_in pelton_plugin::router);
