//! Generates the wire types and service stubs. `protox` reads the .proto files, so no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["vrouter/v1/objects.proto", "vrouter/v1/control.proto", "vrouter/v1/node.proto"];
    for file in files {
        println!("cargo::rerun-if-changed={file}");
    }
    let descriptors = protox::compile(files, ["."])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
