//! The reference S3 server with handwritten requests. The server's own files test signatures. The Python
//! tests use boto3, rclone and the generator.

mod faults;
mod hostile;
mod objects;
mod raw;
mod uploads;
