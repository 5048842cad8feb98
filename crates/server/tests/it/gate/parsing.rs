//! How hosts, origins and networks are read.

use std::fmt::{Debug, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use proptest::prelude::*;
use windlass_server::gate::{Authority, Host, HostPattern, Network, Origin, Unreadable};

fn host(text: &str) -> Host {
    text.parse::<Authority>().unwrap_or_else(|error| panic!("{text}: {error}")).host
}

#[test]
fn port_case_and_a_final_dot_do_not_count() {
    for text in ["localhost", "LOCALHOST", "localhost.", "LocalHost.:9463", "localhost:", "localhost:80"] {
        assert!(host(text).is_localhost(), "{text}");
    }
    for text in ["127.0.0.1", "127.0.0.1.:80", "[::ffff:127.0.0.1]", "[::FFFF:7f00:1]:9463"] {
        assert_eq!(host(text), Host::Address(Ipv4Addr::LOCALHOST.into()), "{text}");
    }
    for text in ["[::1]", "[::1]:9463", "[0:0:0:0:0:0:0:1]:"] {
        assert_eq!(host(text), Host::Address(Ipv6Addr::LOCALHOST.into()), "{text}");
    }
}

#[test]
fn other_writings_of_an_address_are_names() {
    for text in ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.evil.example", "1.2.3.256"] {
        assert_eq!(host(text), Host::Name(text.to_owned()), "{text}");
    }
}

#[test]
fn texts_that_name_no_host_are_unreadable() {
    let long_label = "x".repeat(64);
    let long_name = ["x"; 128].join(".");
    for text in [
        "",
        ".",
        "..",
        "a..b",
        ".a",
        "a b",
        "a/b",
        "a@b",
        "user:pw@a",
        "a,b",
        "a:b",
        "a:80:80",
        "a:65536",
        "a:+80",
        "a:-1",
        "::1",
        "[::1",
        "::1]",
        "[]",
        "[127.0.0.1]",
        "[::1]80",
        "[::1%25eth0]",
        "[fe80::1%eth0]",
        ":80",
        "bücher.example",
        "http://a",
        "*.a",
        "a#b",
        "a?b",
        "a\\b",
        &long_label,
        &long_name,
    ] {
        assert_eq!(text.parse::<Authority>(), Err(Unreadable), "{text}");
    }
}

#[test]
fn an_origin_has_a_scheme_a_host_and_a_port() {
    let origin = |text: &str| text.parse::<Origin>().unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(origin("HTTPS://App.Example.:443"), origin("https://app.example"));
    assert_eq!(origin("http://app.example:80"), origin("http://app.example"));
    assert_ne!(origin("https://app.example:80"), origin("https://app.example"));
    assert_ne!(origin("http://app.example"), origin("https://app.example"));
    assert_ne!(origin("http://app.example:8080"), origin("http://app.example"));
    assert_eq!(origin("chrome-extension://abcdef").to_string(), "chrome-extension://abcdef");
    for text in
        ["", "null", "*", "app.example", "://a", "http://", "http://a/", "http://a/b", "1x://a", "file://"]
    {
        assert_eq!(text.parse::<Origin>(), Err(Unreadable), "{text}");
    }
}

#[test]
fn a_pattern_stands_for_a_host_or_for_all_names_below_one() {
    let matches = |pattern: &str, name: &str| pattern.parse::<HostPattern>().unwrap().matches(&host(name));
    assert!(matches("Queue.Example.", "queue.example:9463"));
    assert!(matches("*.example.com", "a.example.com") && matches("*.Example.com", "A.B.example.com."));
    for name in ["example.com", "badexample.com", "a.example.com.evil", "127.0.0.1"] {
        assert!(!matches("*.example.com", name), "{name}");
    }
    assert!(matches("fd00::1", "[fd00::1]") && matches("[fd00::1]", "[fd00::1]:80"));
    assert!(matches("10.0.0.5", "[::ffff:10.0.0.5]") && !matches("10.0.0.5", "10.0.0.6"));
    for text in
        ["*", "*.", "*a.example", "a.*.example", "*.*.example", "*.127.0.0.1", "*.[::1]", "a:80", "http://a"]
    {
        assert_eq!(text.parse::<HostPattern>(), Err(Unreadable), "{text}");
    }
}

#[test]
fn a_network_is_an_address_and_how_many_bits_of_it_count() {
    let contains =
        |network: &str, address: &str| network.parse::<Network>().unwrap().contains(address.parse().unwrap());
    assert!(contains("127.0.0.1", "127.0.0.1") && contains("127.0.0.1", "::ffff:127.0.0.1"));
    assert!(!contains("127.0.0.1", "127.0.0.2") && !contains("127.0.0.1", "::1"));
    assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.0"));
    assert!(contains("::ffff:10.0.0.0/104", "10.1.2.3") && contains("fd00::/8", "fdff::1"));
    assert!(contains("0.0.0.0/0", "192.0.2.1") && !contains("0.0.0.0/0", "::1"));
    assert!(contains("::/0", "::1") && !contains("::/0", "192.0.2.1"));
    for text in
        ["", "10.0.0.0/33", "10.0.0.1/8", "::/129", "10.0.0.0/", "10.0.0.0/+8", "10/8", "host", "[::1]"]
    {
        assert_eq!(text.parse::<Network>(), Err(Unreadable), "{text}");
    }
}

/// What can be read is shown so that it is read as the same again.
fn comes_back<T: FromStr<Err = Unreadable> + Display + Debug + PartialEq>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        assert_eq!(value.to_string().parse::<T>(), Ok(value), "{text}");
    }
}

/// The first bits, as a text.
fn first_bits(address: IpAddr, count: usize) -> String {
    let bits = match address {
        IpAddr::V4(address) => format!("{:032b}", address.to_bits()),
        IpAddr::V6(address) => format!("{:0128b}", address.to_bits()),
    };
    bits[..count].to_owned()
}

const NAME: &str = "[a-z0-9_-]{1,12}(\\.[a-z0-9_-]{1,12}){0,3}";

proptest! {
    #[test]
    fn whatever_is_readable_is_shown_readably(
        text in prop_oneof![any::<String>(), "[a-zA-Z0-9.:/*\\[\\]-]{0,24}", "(\\*\\.)?[a-f0-9.:]{1,20}(/[0-9]{1,3})?"],
    ) {
        comes_back::<Authority>(&text);
        comes_back::<HostPattern>(&text);
        comes_back::<Network>(&text);
        comes_back::<Origin>(&text);
        comes_back::<Origin>(&format!("http://{text}"));
    }

    #[test]
    fn every_writing_of_a_name_is_the_same_host(name in NAME, port in any::<u16>()) {
        let plain = host(&name);
        for other in [name.to_uppercase(), format!("{name}."), format!("{name}:{port}"), format!("{name}.:")] {
            prop_assert_eq!(host(&other), plain.clone());
        }
    }

    #[test]
    fn an_address_and_its_mapped_form_are_the_same_host(bits in any::<u32>()) {
        let address = Ipv4Addr::from_bits(bits);
        prop_assert_eq!(host(&format!("[{}]:80", address.to_ipv6_mapped())), host(&address.to_string()));
    }

    #[test]
    fn only_names_below_it_match_a_pattern(parent in "[a-z]{1,8}\\.[a-z]{1,8}", child in NAME) {
        let pattern: HostPattern = format!("*.{parent}").parse().unwrap();
        let [below, beside] = [format!("{child}.{parent}"), format!("{child}{parent}")];
        prop_assert!(pattern.matches(&host(&below)));
        prop_assert!(!pattern.matches(&host(&beside)));
        prop_assert!(!pattern.matches(&host(&parent)));
    }

    #[test]
    fn a_network_contains_the_addresses_with_its_first_bits(
        bits in any::<u128>(), flipped in 0..128u32, prefix in 0..=128usize, v4 in any::<bool>(),
    ) {
        let address = |bits: u128| match v4 {
            true => IpAddr::from(Ipv4Addr::from_bits((bits >> 96) as u32)),
            false => IpAddr::from(Ipv6Addr::from_bits(bits)),
        };
        let prefix = if v4 { prefix.min(32) } else { prefix };
        let kept = bits & u128::MAX.checked_shl(128 - prefix as u32).unwrap_or(0);
        let network: Network = format!("{}/{prefix}", address(kept)).parse().unwrap();
        let other = address(bits ^ (1 << flipped));
        let alike = first_bits(other, prefix) == first_bits(address(bits), prefix);
        prop_assert!(network.contains(address(bits)));
        prop_assert_eq!(network.contains(other), alike);
    }
}
