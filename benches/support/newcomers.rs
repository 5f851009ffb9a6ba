//! First packets of connections that nobody knows yet.

use vrouter_forward::frame::Frame;

use crate::{Lane, Site, Template, Traffic};

const SYN: u8 = 0x02;

/// So many connections to one service begin before the first comes round again.
const DISTINCT: usize = 60_000;

/// Connections that begin, each with its first packet, and are forgotten after their round.
#[derive(Debug)]
pub struct Newcomers<'a> {
    site: &'a Site,
    template: Template,
    number: usize,
}

impl<'a> Newcomers<'a> {
    /// New connections of the site's client.
    pub fn new(site: &'a Site) -> Self {
        Self { site, template: Template::new(site.layout().family, SYN, 0), number: 0 }
    }
}

impl Traffic for Newcomers<'_> {
    fn frame(&self) -> Frame {
        self.template.frame(self.site.client())
    }

    fn next(&mut self, frame: &mut Frame) {
        let (client, service) = self.site.connection(self.number);
        self.template.write(frame, self.site.client(), client, service);
        self.number = (self.number + 1) % (DISTINCT * self.site.layout().services);
    }

    fn restore(&mut self, lane: &mut Lane) {
        lane.forget_newcomers();
    }
}
