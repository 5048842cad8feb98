//! A server that answers as a test wants, for answers that a real server gives seldom or never.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

/// The status of a stream of events.
pub(crate) const STREAM: &str = "200 Stream";

/// Answers every request with this status and body. Returns the URL.
pub(crate) fn answer(status: &'static str, body: String) -> String {
    answer_in_turn(vec![(status, body)])
}

/// Answers with these statuses and bodies, and then with the last one for ever. Returns the URL.
pub(crate) fn answer_in_turn(answers: Vec<(&'static str, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let last = answers.last().cloned();
        for (connection, answer) in
            listener.incoming().zip(answers.into_iter().chain(std::iter::repeat(last).flatten()))
        {
            answer_one(&mut connection.unwrap(), &answer);
        }
    });
    url
}

fn answer_one(connection: &mut TcpStream, (status, body): &(&str, String)) {
    let _asked = connection.read(&mut [0; 8192]);
    let media = if *status == STREAM { "text/event-stream" } else { "application/json" };
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {media}\r\nconnection: close\r\n");
    let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    let _gone = connection.write_all(answer.as_bytes());
}

/// Answers with these statuses and bodies; the next request gets no answer. Returns the URL, and what tells that it came.
pub(crate) fn answer_and_hang(answers: Vec<(&'static str, String)>) -> (String, Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("any port");
    let url = format!("http://{}", listener.local_addr().expect("a bound port"));
    let (asked, is_asked) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut connection, _) = listener.accept().expect("somebody asks");
            answer_one(&mut connection, &answer);
        }
        let (mut connection, _) = listener.accept().expect("somebody asks");
        let _asked = connection.read(&mut [0; 8192]);
        let _test_is_over = asked.send(());
        // Until the other side hangs up.
        let _gone = connection.read(&mut [0; 8192]);
    });
    (url, is_asked)
}
