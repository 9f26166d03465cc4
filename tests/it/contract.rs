//! The contract as a text whose diff is read in review: every service, RPC, message, field,
//! number and enum value. `BLESS=1 cargo test --test it contract` writes it anew.

use std::fmt::Write;

use prost::Message;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

#[test]
fn the_contract_is_the_one_that_was_reviewed() {
    let set = FileDescriptorSet::decode(holdoff::proto::DESCRIPTORS).unwrap();
    let mut text = String::new();
    for file in set
        .file
        .iter()
        .filter(|file| file.package() == "holdoff.v1")
    {
        writeln!(text, "file {}", file.name()).unwrap();
        file.service.iter().for_each(|it| service(&mut text, it));
        file.message_type
            .iter()
            .for_each(|it| message(&mut text, it));
        file.enum_type.iter().for_each(|it| values(&mut text, it));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/contract.txt");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let reviewed = std::fs::read_to_string(path).unwrap_or_default();
    let lost: Vec<_> = reviewed
        .lines()
        .filter(|line| !text.lines().any(|l| l == *line))
        .collect();
    let new: Vec<_> = text
        .lines()
        .filter(|line| !reviewed.lines().any(|l| l == *line))
        .collect();
    assert!(
        text == reviewed,
        "the contract changed; gone: {lost:#?}, new: {new:#?}; if that is meant, run with BLESS=1"
    );
}

fn service(text: &mut String, service: &ServiceDescriptorProto) {
    for method in &service.method {
        let stream = |yes: bool| if yes { "stream " } else { "" };
        writeln!(
            text,
            "rpc {}.{}({}{}) returns ({}{})",
            service.name(),
            method.name(),
            stream(method.client_streaming()),
            method.input_type(),
            stream(method.server_streaming()),
            method.output_type(),
        )
        .unwrap();
    }
}

fn message(text: &mut String, message: &DescriptorProto) {
    writeln!(text, "message {}", message.name()).unwrap();
    for field in &message.field {
        let one_of = field.oneof_index.map(|index| {
            let name = message.oneof_decl[index as usize].name();
            format!(" oneof {name}")
        });
        writeln!(
            text,
            "{}.{} = {}: {}{}",
            message.name(),
            field.name(),
            field.number(),
            kind(field),
            one_of.unwrap_or_default(),
        )
        .unwrap();
    }
}

fn kind(field: &FieldDescriptorProto) -> String {
    let kind = match field.r#type() {
        Type::Message | Type::Enum => field.type_name().to_owned(),
        plain => format!("{plain:?}").to_lowercase(),
    };
    match field.label() {
        Label::Repeated => format!("repeated {kind}"),
        Label::Optional | Label::Required => kind,
    }
}

fn values(text: &mut String, values: &EnumDescriptorProto) {
    for value in &values.value {
        writeln!(
            text,
            "{}.{} = {}",
            values.name(),
            value.name(),
            value.number()
        )
        .unwrap();
    }
}
