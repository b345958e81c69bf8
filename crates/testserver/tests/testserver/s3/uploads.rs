//! Multipart uploads.

use super::raw::{server, Client};

const PART: usize = 5 << 20;

fn create(client: &mut Client, key: &str) -> String {
    let created = client.ask("POST", &format!("/volume1/{key}?uploads"), "", b"");
    created.elements("UploadId")[0].to_owned()
}

#[test]
fn parts_become_one_object_with_the_etag_of_a_multipart_upload() {
    let server = server();
    let mut client = Client::of(&server);
    let id = create(&mut client, "big");
    let parts = [vec![b'a'; PART], vec![b'b'; PART], b"end".to_vec()];
    let mut document = "<CompleteMultipartUpload>".to_owned();
    for (number, part) in (1..).zip(&parts) {
        let target = format!("/volume1/big?partNumber={number}&uploadId={id}");
        let put = client.ask("PUT", &target, "", part);
        document += &format!(
            "<Part><ETag>{}</ETag><PartNumber>{number}</PartNumber></Part>",
            put.field("ETag")
        );
    }
    document += "</CompleteMultipartUpload>";
    assert!(client.get("/big").is(404, "NoSuchKey"));
    assert_eq!(
        client.get(&format!("/big?uploadId={id}")).elements("Size"),
        ["5242880", "5242880", "3"]
    );
    let swapped = document.replace("<PartNumber>2<", "<PartNumber>4<");
    let target = format!("/volume1/big?uploadId={id}");
    assert!(client
        .ask("POST", &target, "", swapped.as_bytes())
        .is(400, "InvalidPart"));
    let done = client.ask("POST", &target, "", document.as_bytes());
    // The MD5 of the three MD5s, computed with `md5sum`.
    assert_eq!(
        done.elements("ETag"),
        ["&quot;664acfbb935a00cf57c9f91ad983b354-3&quot;"]
    );
    assert_eq!(client.get("/big").body, parts.concat());
    assert!(client
        .ask("POST", &target, "", document.as_bytes())
        .is(404, "NoSuchUpload"));
}

#[test]
fn a_small_part_that_is_not_the_last_is_refused_and_the_upload_continues() {
    let server = server();
    let mut client = Client::of(&server);
    let id = create(&mut client, "k");
    let mut document = "<CompleteMultipartUpload>".to_owned();
    for number in 1..3 {
        let target = format!("/volume1/k?partNumber={number}&uploadId={id}");
        let put = client.ask("PUT", &target, "", b"small");
        document += &format!(
            "<Part><PartNumber>{number}</PartNumber><ETag>{}</ETag></Part>",
            put.field("ETag")
        );
    }
    document += "</CompleteMultipartUpload>";
    let target = format!("/volume1/k?uploadId={id}");
    assert!(client
        .ask("POST", &target, "", document.as_bytes())
        .is(400, "EntityTooSmall"));
    assert_eq!(
        client.get("?uploads&prefix=k").elements("UploadId"),
        [id.as_str()]
    );
    assert_eq!(client.ask("DELETE", &target, "", b"").status, 204);
    assert!(client.get("?uploads").elements("UploadId").is_empty());
    assert!(client.ask("DELETE", &target, "", b"").is(404, "NoSuchUpload"));
}

#[test]
fn unfinished_uploads_are_listed_in_pages() {
    let server = server();
    let mut client = Client::of(&server);
    for key in ["a", "b", "b", "c"] {
        create(&mut client, key);
    }
    let (mut keys, mut marker) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("?uploads&max-uploads=1{marker}"));
        keys.extend(page.elements("Key").into_iter().map(str::to_owned));
        match (
            page.elements("NextKeyMarker").as_slice(),
            page.elements("NextUploadIdMarker").as_slice(),
        ) {
            ([key], [id]) => marker = format!("&key-marker={key}&upload-id-marker={id}"),
            _ => break,
        }
    }
    assert_eq!(keys, ["a", "b", "b", "c"]);
}
