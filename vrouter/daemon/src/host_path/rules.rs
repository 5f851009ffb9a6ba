//! Policy routing: what the steering marks is looked up in our table before the `local` one, which for that moves
//! behind. There is no moment without a rule for the `local` table.

use futures::TryStreamExt;
use rtnetlink::Handle;
use rtnetlink::packet_route::route::RouteProtocol;
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};

use super::family::Family;
use super::marks::{self, Marks};
use super::{HostPathError, link};

/// The table in which the kernel keeps the node's own addresses.
const LOCAL_TABLE: u32 = 255;

/// A rule, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    preference: u32,
    choice: Choice,
    action: Action,
}

/// Which packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    All,
    Marked(u32),
}

/// What becomes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    LookUp(u32),
    Drop,
}

/// Brings the rules to what they should be.
pub(super) async fn follow(netlink: &Handle, marks: Marks) -> Result<(), HostPathError> {
    for family in Family::spoken() {
        let held = read(netlink, family).await?;
        let has = |rule: &Rule| held.iter().any(|(held, _)| held.as_ref() == Some(rule));
        // The `local` rule first: only then may the one before go.
        for rule in wanted(marks).into_iter().rev().filter(|rule| !has(rule)) {
            add(netlink, family, rule).await?;
        }
        for (_, message) in held.iter().filter(|(rule, message)| is_in_the_way(rule, message, marks)) {
            remove(netlink, message).await?;
        }
    }
    Ok(())
}

/// Puts the `local` rule back to its place and removes ours.
pub(super) async fn withdraw(netlink: &Handle) -> Result<(), HostPathError> {
    for family in Family::spoken() {
        let held = read(netlink, family).await?;
        let is_anothers =
            |(rule, message): &&(Option<Rule>, RuleMessage)| is_local(rule) && !is_ours(message);
        if held.iter().find(is_anothers).is_none() {
            let preference = 0;
            let kernel_default =
                Rule { preference, choice: Choice::All, action: Action::LookUp(LOCAL_TABLE) };
            add_as(netlink, family, kernel_default, RouteProtocol::Kernel).await?;
        }
        for (_, message) in held.iter().filter(|(_, message)| is_ours(message)) {
            remove(netlink, message).await?;
        }
    }
    Ok(())
}

/// Our rules, in their order.
fn wanted(marks: Marks) -> [Rule; 3] {
    let [first, second, third] = std::array::from_fn(|place| marks::PREFERENCE + place as u32);
    [
        Rule {
            preference: first,
            choice: Choice::Marked(marks.offered()),
            action: Action::LookUp(marks::TABLE),
        },
        Rule { preference: second, choice: Choice::Marked(marks.exclusive()), action: Action::Drop },
        Rule { preference: third, choice: Choice::All, action: Action::LookUp(LOCAL_TABLE) },
    ]
}

/// Whether a rule keeps ours from being met, or is of ours and not wanted any more.
fn is_in_the_way(rule: &Option<Rule>, message: &RuleMessage, marks: Marks) -> bool {
    let stands_before = |rule: &Rule| rule.preference < marks::PREFERENCE + 2;
    let is_wanted = rule.is_some_and(|rule| wanted(marks).contains(&rule));
    (is_local(rule) && rule.as_ref().is_some_and(stands_before)) || (is_ours(message) && !is_wanted)
}

fn is_local(rule: &Option<Rule>) -> bool {
    rule.is_some_and(|rule| rule.choice == Choice::All && rule.action == Action::LookUp(LOCAL_TABLE))
}

fn is_ours(message: &RuleMessage) -> bool {
    message.attributes.contains(&RuleAttribute::Protocol(RouteProtocol::Other(marks::PROTOCOL)))
}

/// All rules of a family, with what those are that are of our kinds.
async fn read(netlink: &Handle, family: Family) -> Result<Vec<(Option<Rule>, RuleMessage)>, HostPathError> {
    let messages: Vec<_> = netlink
        .rule()
        .get(family.version())
        .execute()
        .try_collect()
        .await
        .map_err(HostPathError::kernel("rules", "reading them"))?;
    Ok(messages.into_iter().map(|message| (recognise(&message), message)).collect())
}

fn recognise(message: &RuleMessage) -> Option<Rule> {
    let (mut preference, mut table) = (0, message.header.table.into());
    let (mut mark, mut mask) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(number) => preference = *number,
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::FwMark(number) => mark = Some(*number),
            RuleAttribute::FwMask(number) => mask = Some(*number),
            RuleAttribute::Protocol(_) | RuleAttribute::SuppressPrefixLen(u32::MAX) => {}
            // It chooses by something else as well.
            _ => return None,
        }
    }
    let choice = match (mark, mask) {
        (None, None) => Choice::All,
        (Some(mark), Some(mask)) if mark == mask => Choice::Marked(mark),
        _ => return None,
    };
    let action = match message.header.action {
        RuleAction::ToTable => Action::LookUp(table),
        RuleAction::Blackhole => Action::Drop,
        _ => return None,
    };
    let chooses_by_address = message.header.src_len > 0 || message.header.dst_len > 0;
    (!chooses_by_address).then_some(Rule { preference, choice, action })
}

async fn add(netlink: &Handle, family: Family, rule: Rule) -> Result<(), HostPathError> {
    add_as(netlink, family, rule, RouteProtocol::Other(marks::PROTOCOL)).await
}

async fn add_as(
    netlink: &Handle,
    family: Family,
    rule: Rule,
    protocol: RouteProtocol,
) -> Result<(), HostPathError> {
    let mut request = netlink.rule().add().priority(rule.preference);
    request = match rule.action {
        Action::LookUp(table) => request.action(RuleAction::ToTable).table_id(table),
        Action::Drop => request.action(RuleAction::Blackhole).table_id(0),
    };
    let message = request.message_mut();
    message.header.family = family.number();
    message.attributes.push(RuleAttribute::Protocol(protocol));
    if let Choice::Marked(bit) = rule.choice {
        message.attributes.extend([RuleAttribute::FwMark(bit), RuleAttribute::FwMask(bit)]);
    }
    let object = format!("{family} rule {}", rule.preference);
    request.execute().await.map_err(HostPathError::kernel(object, "making it"))
}

async fn remove(netlink: &Handle, message: &RuleMessage) -> Result<(), HostPathError> {
    let mut message = message.clone();
    let priority = message.attributes.iter().find_map(|attribute| match attribute {
        RuleAttribute::Priority(number) => Some(*number),
        _ => None,
    });
    if priority.is_none() {
        // Unsaid, it would be any of the same kind.
        message.attributes.push(RuleAttribute::Priority(0));
    }
    let object = format!("rule {}", priority.unwrap_or_default());
    match netlink.rule().del(message).execute().await {
        Err(error) if !link::is_absent(&error) => Err(HostPathError::kernel(object, "removing it")(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_choose_by_more_than_a_mark_are_not_taken_for_ours() {
        let mut message = RuleMessage::default();
        message.header.action = RuleAction::ToTable;
        message.header.table = 255;
        assert!(is_local(&recognise(&message)));
        let mut by_link = message.clone();
        by_link.attributes.push(RuleAttribute::Iifname("eth0".to_owned()));
        assert_eq!(recognise(&by_link), None);
        message.header.src_len = 24;
        assert_eq!(recognise(&message), None);
    }

    #[test]
    fn only_a_local_rule_before_ours_is_in_the_way() {
        let marks = Marks::DEFAULT;
        let message = RuleMessage::default();
        let local =
            |preference| Some(Rule { preference, choice: Choice::All, action: Action::LookUp(LOCAL_TABLE) });
        assert!(is_in_the_way(&local(0), &message, marks));
        assert!(!is_in_the_way(&local(100), &message, marks));
        let main = Some(Rule { preference: 0, choice: Choice::All, action: Action::LookUp(254) });
        assert!(!is_in_the_way(&main, &message, marks));
        assert!(!is_in_the_way(&None, &message, marks));
    }
}
