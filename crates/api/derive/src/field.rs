//! One field of a message: what its type is in protobuf, and how it looks in JSON.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Attribute, Error, Expr, ExprLit, GenericArgument, Lit, LitInt, Meta, PathArguments, Token, Type};

pub(crate) struct Field {
    pub(crate) number: u32,
    name: String,
    many: Many,
    /// The type of one value: `T` of `T`, `Option<T>`, `Vec<T>` and `BTreeMap<K, T>`.
    of: Type,
    mark: Option<Mark>,
    /// The field as it was written, without `#[field(..)]`.
    written: syn::Field,
}

/// How many values a field has.
enum Many {
    One,
    Option,
    List,
    /// By keys of this type.
    Map(Box<Type>),
}

/// The word after the number in `#[field(..)]`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// A list or map that JSON leaves out if it is empty.
    Optional,
    /// An `Option` that JSON has as null if it is unset.
    Nullable,
    /// A text that is a value in JSON.
    Json,
}

impl Field {
    pub(crate) fn parse(mut written: syn::Field) -> syn::Result<Self> {
        let place = written.attrs.iter().position(|attribute| attribute.path().is_ident("field"));
        let place = place.ok_or_else(|| Error::new_spanned(&written, "`#[field(<number>)]` is missing"))?;
        let attribute = written.attrs.remove(place);
        let (number, mark) = attribute.parse_args_with(number_and_mark)?;
        let name = written.ident.as_ref().map(|name| name.unraw().to_string()).unwrap_or_default();
        let (many, of) = many(&written.ty);
        let field = Self { number, name, many, of, mark, written };
        match field.wrong_mark() {
            Some(only) => Err(Error::new_spanned(attribute, only)),
            None => Ok(field),
        }
    }

    fn wrong_mark(&self) -> Option<&'static str> {
        match (self.mark?, &self.many) {
            (Mark::Optional, Many::List | Many::Map(_)) | (Mark::Nullable, Many::Option) => None,
            (Mark::Json, Many::Option) if is(&self.of, "String") => None,
            (Mark::Optional, _) => Some("`optional` is for a list or a map: an `Option` is so anyway"),
            (Mark::Nullable, _) => Some("`nullable` is for an `Option`"),
            (Mark::Json, _) => Some("`json` is for an `Option<String>`"),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the JSON schema of a request requires the field.
    pub(crate) fn is_required(&self) -> bool {
        match self.many {
            Many::One => !is(&self.of, "bool"),
            Many::Option => false,
            Many::List | Many::Map(_) => self.mark != Some(Mark::Optional),
        }
    }

    /// The field with its attributes of prost, serde and schemars.
    pub(crate) fn definition(&self) -> TokenStream {
        let (prost, codec, skip, written) = (self.prost(), self.codec(), self.skip(), &self.written);
        quote! { #prost #codec #skip #written }
    }

    fn prost(&self) -> TokenStream {
        let (kind, tag) = (kind(&self.of), self.number.to_string());
        match &self.many {
            Many::One if scalar(&self.of).is_none() => quote! { #[prost(message, required, tag = #tag)] },
            Many::One => quote! { #[prost(#kind, tag = #tag)] },
            Many::Option => quote! { #[prost(#kind, optional, tag = #tag)] },
            Many::List => quote! { #[prost(#kind, repeated, tag = #tag)] },
            Many::Map(key) => {
                let kinds = format!("{}, {kind}", self::kind(key));
                quote! { #[prost(btree_map = #kinds, tag = #tag)] }
            }
        }
    }

    /// How a JSON text or bytes are written in JSON.
    fn codec(&self) -> TokenStream {
        if self.mark == Some(Mark::Json) {
            quote! {
                #[serde(with = "crate::payload::json_text")]
                #[schemars(with = "serde_json::Value")]
            }
        } else if is(&self.of, "Bytes") {
            quote! {
                #[serde(with = "crate::payload::base64_text")]
                #[schemars(with = "Option<String>", extend("contentEncoding" = "base64"))]
            }
        } else {
            TokenStream::new()
        }
    }

    fn skip(&self) -> TokenStream {
        let unset = match (&self.many, self.mark) {
            (Many::Option, None | Some(Mark::Json)) => "Option::is_none",
            (Many::List, Some(Mark::Optional)) => "Vec::is_empty",
            (Many::Map(_), Some(Mark::Optional)) => "::std::collections::BTreeMap::is_empty",
            (Many::One | Many::Option | Many::List | Many::Map(_), _) => return TokenStream::new(),
        };
        quote! { #[serde(skip_serializing_if = #unset)] }
    }

    /// The field for `proto/`.
    pub(crate) fn described(&self) -> TokenStream {
        let Self { number, name, of, .. } = self;
        let (doc, is_json) = (doc(&self.written.attrs), self.mark == Some(Mark::Json));
        let label = match &self.many {
            Many::One => quote! { One },
            Many::Option => quote! { Optional },
            Many::List => quote! { Repeated },
            Many::Map(key) => quote! { Map(<#key as crate::schema::Described>::TYPE) },
        };
        quote! {
            crate::schema::Field {
                number: #number,
                name: #name,
                doc: #doc,
                label: crate::schema::Label::#label,
                of: <#of as crate::schema::Described>::TYPE,
                is_json: #is_json,
            }
        }
    }

    /// The field for `Shape`, if it can come more than once or has fields of its own.
    pub(crate) fn shape(&self) -> Option<TokenStream> {
        let Self { number, name, of, .. } = self;
        let (count, of) = match &self.many {
            Many::One | Many::Option if scalar(of).is_some() => return None,
            Many::One | Many::Option => (quote! { One }, quote! { #of }),
            Many::List => (quote! { List }, quote! { #of }),
            Many::Map(key) => (quote! { Headers }, quote! { (#key, #of) }),
        };
        Some(quote! {
            crate::shape::Field {
                tag: #number,
                name: #name,
                count: crate::shape::Count::#count,
                shape: &<#of as crate::shape::Shaped>::SHAPE,
            }
        })
    }
}

/// `<number>` or `<number>, <mark>`.
fn number_and_mark(input: ParseStream<'_>) -> syn::Result<(u32, Option<Mark>)> {
    let number = input.parse::<LitInt>()?.base10_parse()?;
    if input.is_empty() {
        return Ok((number, None));
    }
    input.parse::<Token![,]>()?;
    let word: Ident = input.parse()?;
    let mark = match word.to_string().as_str() {
        "optional" => Mark::Optional,
        "nullable" => Mark::Nullable,
        "json" => Mark::Json,
        _ => return Err(Error::new_spanned(word, "`optional`, `nullable` or `json`")),
    };
    Ok((number, Some(mark)))
}

/// The lines of a doc comment.
pub(crate) fn doc(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| {
        let Meta::NameValue(doc) = &attribute.meta else { return None };
        let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &doc.value else { return None };
        doc.path.is_ident("doc").then(|| line.value().trim().to_owned())
    };
    attributes.iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

fn many(ty: &Type) -> (Many, Type) {
    match (container(ty).as_str(), arguments(ty).as_slice()) {
        ("Option", [of]) => (Many::Option, of.clone()),
        ("Vec", [of]) => (Many::List, of.clone()),
        ("BTreeMap", [key, of]) => (Many::Map(Box::new(key.clone())), of.clone()),
        _ => (Many::One, ty.clone()),
    }
}

/// `Vec` of `Vec<T>`.
fn container(ty: &Type) -> String {
    let Type::Path(path) = ty else { return String::new() };
    path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default()
}

/// `[T]` of `Vec<T>`.
fn arguments(ty: &Type) -> Vec<Type> {
    let Type::Path(path) = ty else { return Vec::new() };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    let PathArguments::AngleBracketed(given) = &last.arguments else { return Vec::new() };
    let types = given.args.iter().filter_map(|argument| {
        let GenericArgument::Type(ty) = argument else { return None };
        Some(ty.clone())
    });
    types.collect()
}

/// The name of a scalar type in protobuf and in prost. `None` for a message.
fn scalar(ty: &Type) -> Option<&'static str> {
    let names = [
        ("String", "string"),
        ("bool", "bool"),
        ("u32", "uint32"),
        ("u64", "uint64"),
        ("f64", "double"),
        ("Bytes", "bytes"),
    ];
    names.into_iter().find(|(name, _)| is(ty, name)).map(|(_, scalar)| scalar)
}

fn kind(ty: &Type) -> TokenStream {
    match scalar(ty) {
        Some("bytes") => quote! { bytes = "bytes" },
        Some(scalar) => {
            let scalar = format_ident!("{scalar}");
            quote! { #scalar }
        }
        None => quote! { message },
    }
}

fn is(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.is_ident(name))
}
