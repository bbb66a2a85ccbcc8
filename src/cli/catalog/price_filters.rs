//! The filters of `prices`, each with the words that made it, so that an empty list can say which of them left nothing.

use crate::catalog::price_query::{Places, Query, Wanted, flag};
use crate::session::Catalogs;
use crate::session::printer::Printer;
use gpuplan_hardware::{CloudId, InstanceType};
use gpuplan_market::{ANYWHERE, Offer};
use gpuplan_units::names::did_you_mean;

/// One filter: its words on the command line, what it keeps, and what to ask for instead.
pub struct Filter<'a> {
    words: String,
    pub keeps: Box<dyn Fn(&Offer) -> bool + 'a>,
    alternative: Box<dyn Fn(&Offer) -> String + 'a>,
}

/// Alternatives named where a filter leaves nothing.
const MOST_ALTERNATIVES: usize = 8;

/// In the order in which people think of them; each names the one that a reader would change.
pub fn filters<'a>(query: &'a Query, places: &'a Places, catalogs: &'a Catalogs) -> Vec<Filter<'a>> {
    let machine = |offer: &Offer| catalogs.hardware.instance(offer.instance);
    let mut filters = Vec::new();
    let mut add =
        |words: String, keeps: Box<dyn Fn(&Offer) -> bool + 'a>, alternative: Box<dyn Fn(&Offer) -> String + 'a>| {
            filters.push(Filter { words, keeps, alternative });
        };
    if !query.wanted.is_empty() {
        let typed: Vec<&str> = query.wanted.iter().map(|wanted| wanted.text.as_str()).collect();
        let typed = typed.join(" ");
        let any = move |is_kept: &dyn Fn(&Wanted) -> bool| query.wanted.iter().any(is_kept);
        add(
            format!("the GPU of `{typed}`"),
            Box::new(move |offer| any(&|wanted| wanted.is_gpu_of(machine(offer), &catalogs.hardware))),
            Box::new(move |offer| catalogs.hardware.gpu(machine(offer).node.gpu).family.clone()),
        );
        add(
            format!("the count of `{typed}`"),
            Box::new(move |offer| any(&|wanted| wanted.is_count_of(machine(offer), &catalogs.hardware))),
            Box::new(move |offer| format!("{:>3}", machine(offer).node.gpus)),
        );
        if query.wanted.iter().any(Wanted::names_machine) {
            add(
                format!("the machine `{typed}`"),
                Box::new(move |offer| query.wants(machine(offer), &catalogs.hardware)),
                Box::new(move |offer| machine(offer).name.clone()),
            );
        }
    }
    if !query.clouds.is_empty() {
        let named: Vec<&str> = query.clouds.iter().map(CloudId::as_str).collect();
        add(
            format!("--cloud {}", named.join(" --cloud ")),
            Box::new(move |offer| query.clouds.contains(&machine(offer).cloud)),
            Box::new(move |offer| machine(offer).cloud.to_string()),
        );
    }
    if !places.are_any() {
        add(
            places.words.clone(),
            Box::new(|offer| places.include(&offer.place)),
            Box::new(|offer| match &*offer.place.region {
                ANYWHERE => "any (its source names no region)".to_owned(),
                region => region.to_owned(),
            }),
        );
    }
    add(
        query.terms.words(),
        Box::new(|offer| query.terms.include(offer.purchase)),
        Box::new(|offer| flag(offer.purchase.word())),
    );
    if query.trusted {
        add(
            "--trusted".to_owned(),
            Box::new(|offer| !offer.is_suspect()),
            Box::new(|offer| offer.suspicions.iter().map(|suspicion| suspicion.word()).collect::<Vec<_>>().join(" ")),
        );
    }
    filters
}

/// Machines that are asked for and that no source prices.
pub fn unpriced(query: &Query, catalogs: &Catalogs) -> Vec<String> {
    if query.wanted.is_empty() {
        return Vec::new();
    }
    let hardware = &catalogs.hardware;
    let mut is_priced = vec![false; hardware.instances().len()];
    for offer in catalogs.market.offers() {
        is_priced[offer.instance.0 as usize] = true;
    }
    let is_asked_for = |machine: &InstanceType| {
        query.wants(machine, hardware) && (query.clouds.is_empty() || query.clouds.contains(&machine.cloud))
    };
    let machines = hardware.instances().iter().zip(is_priced);
    machines
        .filter(|(machine, priced)| !priced && is_asked_for(machine))
        .map(|(machine, _)| machine.name.clone())
        .collect()
}

/// Says how many offers each filter left, and what the last of them would have had to be instead.
pub fn explain_nothing(query: &Query, filters: &[Filter], catalogs: &Catalogs, unpriced: &[String], printer: &Printer) {
    printer.note("no offer matches");
    let mut left: Vec<&Offer> = catalogs.market.offers().iter().collect();
    for filter in filters {
        let kept: Vec<&Offer> = left.iter().copied().filter(|offer| (filter.keeps)(offer)).collect();
        if kept.len() < left.len() {
            printer.note(&format!("  {} leaves {} of {}", filter.words, kept.len(), left.len()));
        }
        if kept.is_empty() {
            let mut others: Vec<String> = left.iter().map(|offer| (filter.alternative)(offer)).collect();
            others.sort();
            others.dedup();
            let others: Vec<&str> = others.iter().map(|other| other.trim()).collect();
            printer.note(&nearest(&filter.words, &others));
            break;
        }
        left = kept;
    }
    if is_rented_by_nobody(query, catalogs) {
        printer.note("no machine of the catalog has it; `estimate --gpus` and [[own]] in capacity.toml take it");
    }
    if !unpriced.is_empty() {
        printer.note(&format!("no embedded price: {} (a live source will price them)", unpriced.join(", ")));
    }
}

/// GPUs that are known for what people own: the catalog has no machine with one, priced or not.
fn is_rented_by_nobody(query: &Query, catalogs: &Catalogs) -> bool {
    let has_it = |machine| query.wanted.iter().any(|wanted| wanted.is_gpu_of(machine, &catalogs.hardware));
    !query.wanted.is_empty() && !catalogs.hardware.instances().iter().any(has_it)
}

fn nearest(words: &str, others: &[&str]) -> String {
    let wanted = words.rsplit(' ').next().unwrap_or(words);
    let first = if others.len() > 1 { did_you_mean(wanted, others.iter().copied()) } else { None };
    let mut named: Vec<&str> =
        first.into_iter().chain(others.iter().copied().filter(|other| Some(*other) != first)).collect();
    let more = named.len().saturating_sub(MOST_ALTERNATIVES);
    named.truncate(MOST_ALTERNATIVES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("nearest alternatives: {}{more}", named.join(", "))
}
