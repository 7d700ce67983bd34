//! From the tables that a statement reads or writes to the cells of the cache.

use delphinus_cache::{About, Spot};
use delphinus_sql::{TableKey, Touched};
use delphinus_topology::ClusterId;

/// What an answer depends on that reads this.
pub(super) fn spots_read(cluster: ClusterId, touched: &Touched) -> Box<[Spot]> {
    let spot = |about| Spot::new(cluster, about);
    if touched.is_everything {
        return [spot(About::Any)].into();
    }
    let mut spots = vec![spot(About::Some)];
    for TableKey { schema, table } in &touched.tables {
        spots.push(spot(About::Table(*table)));
        spots.push(spot(About::SomeOfSchema(*schema)));
    }
    spots.extend(touched.schemas.iter().map(|schema| spot(About::AnyOfSchema(*schema))));
    spots.sort_unstable();
    spots.dedup();
    spots.into()
}

/// What a write of this changes: each cell once.
pub fn spots_written(cluster: ClusterId, touched: &Touched) -> Vec<Spot> {
    let spot = |about| Spot::new(cluster, about);
    let mut spots = vec![spot(About::Any)];
    if touched.is_everything {
        spots.push(spot(About::Some));
    }
    for TableKey { schema, table } in &touched.tables {
        spots.push(spot(About::Table(*table)));
        spots.push(spot(About::AnyOfSchema(*schema)));
    }
    for schema in &touched.schemas {
        spots.push(spot(About::SomeOfSchema(*schema)));
        spots.push(spot(About::AnyOfSchema(*schema)));
    }
    spots.sort_unstable();
    spots.dedup();
    spots
}
