//! One message: the struct with all of its attributes, and what describes it.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Attribute, Data, DataStruct, DeriveInput, Error, Fields, Visibility};

use crate::field::{Field, doc};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Reply,
}

pub(crate) struct Message {
    side: Side,
    /// In JSON, the one field stands for the message.
    is_transparent: bool,
    attributes: Vec<Attribute>,
    visibility: Visibility,
    name: Ident,
    fields: Vec<Field>,
}

impl Message {
    pub(crate) fn parse(side: Side, options: TokenStream, item: TokenStream) -> syn::Result<Self> {
        let is_transparent = match options.to_string().as_str() {
            "" => false,
            "transparent" => true,
            _ => return Err(Error::new_spanned(options, "`transparent`, or nothing")),
        };
        let item: DeriveInput = syn::parse2(item)?;
        if !item.generics.params.is_empty() {
            return Err(Error::new_spanned(item.generics, "a message has no parameters"));
        }
        let fields = match item.data {
            Data::Struct(DataStruct { fields: Fields::Named(fields), .. }) => fields.named,
            Data::Struct(_) | Data::Enum(_) | Data::Union(_) => {
                return Err(Error::new_spanned(item.ident, "a message is a struct with named fields"));
            }
        };
        Ok(Self {
            side,
            is_transparent,
            attributes: item.attrs,
            visibility: item.vis,
            name: item.ident,
            fields: fields.into_iter().map(Field::parse).collect::<syn::Result<_>>()?,
        })
    }

    pub(crate) fn expand(&self) -> TokenStream {
        let (definition, described, shaped) = (self.definition(), self.described(), self.shaped());
        quote! { #definition #described #shaped }
    }

    /// The struct as it was written, with all attributes.
    fn definition(&self) -> TokenStream {
        let Self { attributes, visibility, name, .. } = self;
        let serde = match (self.is_transparent, self.side) {
            (true, _) => quote! { #[serde(transparent)] #[schemars(transparent, inline)] },
            (false, Side::Request) => quote! { #[serde(default, deny_unknown_fields)] },
            (false, Side::Reply) => quote! { #[serde(default)] },
        };
        let (required, fields) = (self.required(), self.fields.iter().map(Field::definition));
        quote! {
            #[derive(Clone, PartialEq, ::prost::Message)]
            #[derive(::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
            #serde
            #required
            #(#attributes)*
            #visibility struct #name { #(#fields),* }
        }
    }

    /// For the JSON schema: serde itself has a default for every field.
    fn required(&self) -> TokenStream {
        let names: Vec<_> = self.fields.iter().filter(|field| field.is_required()).map(Field::name).collect();
        let applies = self.side == Side::Request && !self.is_transparent && !names.is_empty();
        if applies {
            quote! { #[schemars(extend("required" = [#(#names),*]))] }
        } else {
            TokenStream::new()
        }
    }

    /// The message for `proto/`, its fields by number.
    fn described(&self) -> TokenStream {
        let (ident, doc) = (&self.name, doc(&self.attributes));
        let name = ident.to_string();
        let fields = self.by_number().map(Field::described);
        quote! {
            impl crate::schema::Described for #ident {
                const TYPE: crate::schema::Type = crate::schema::Type::Message(&crate::schema::Message {
                    name: #name,
                    module: module_path!(),
                    line: line!(),
                    doc: #doc,
                    fields: &[#(#fields),*],
                });
            }
        }
    }

    fn shaped(&self) -> TokenStream {
        if self.side == Side::Reply {
            return TokenStream::new();
        }
        let ident = &self.name;
        let fields = self.by_number().filter_map(Field::shape);
        quote! {
            impl crate::shape::Shaped for #ident {
                const SHAPE: crate::shape::Shape = crate::shape::Shape::of_message::<Self>(&[#(#fields),*]);
            }
        }
    }

    fn by_number(&self) -> impl Iterator<Item = &Field> {
        let mut fields: Vec<_> = self.fields.iter().collect();
        fields.sort_by_key(|field| field.number);
        fields.into_iter()
    }
}
