//! Both machines against each other, over the product of what they can meet.

mod golden;
mod pair;
mod product;
mod random;
