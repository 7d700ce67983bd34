//! Classification and digest of statements as applications send them.

use std::hint::black_box;

use delphinus_sql::{LexOptions, classify, classify_and_digest, digest};

use crate::{Case, measure};

const STATEMENTS: [(&str, &str); 9] = [
    ("point-select", "SELECT c FROM sbtest1 WHERE id=123456"),
    ("range", "SELECT DISTINCT c FROM sbtest7 WHERE id BETWEEN 5012 AND 5111 ORDER BY c"),
    (
        "insert",
        "INSERT INTO sbtest3 (id, k, c, pad) VALUES (0, 50123, '68487932199-96439406143-93774651418-41631865787', \
         '67847967377-48000963322-62604785301-91415491898')",
    ),
    ("update", "UPDATE sbtest2 SET k=k+1 WHERE id=4991"),
    (
        "analytic",
        "SELECT r.name AS region,
       c.segment,
       DATE_FORMAT(o.created_at, '%Y-%m') AS month,
       COUNT(DISTINCT o.id) AS orders,
       SUM(i.quantity * i.price) AS revenue,
       SUM(CASE WHEN o.status = 'returned' THEN i.quantity * i.price ELSE 0 END) AS returned,
       RANK() OVER (PARTITION BY r.name ORDER BY SUM(i.quantity * i.price) DESC) AS position
FROM orders o
JOIN customers c ON c.id = o.customer_id
JOIN regions r ON r.id = c.region_id
LEFT JOIN order_items i ON i.order_id = o.id
WHERE o.created_at >= '2026-01-01'
  AND o.created_at < '2027-01-01'
  AND c.segment IN ('consumer', 'business', 'public')
  AND o.status <> 'cancelled'
  AND NOT EXISTS (SELECT 1 FROM blocked b WHERE b.customer_id = c.id)
GROUP BY r.name, c.segment, DATE_FORMAT(o.created_at, '%Y-%m')
HAVING SUM(i.quantity * i.price) > 10000
ORDER BY region, month, revenue DESC
LIMIT 100",
    ),
    ("set", "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci, @@session.sql_mode = 'STRICT_TRANS_TABLES'"),
    ("begin", "BEGIN"),
    ("show", "SHOW FULL COLUMNS FROM `app`.`customers` LIKE 'na%'"),
    (
        "comment",
        "/* app:shop,controller:cart,action:show */ SELECT id, sku FROM items WHERE cart_id = 77 -- cart",
    ),
];

/// A text at an address that does not change with the program around it: what reads many bytes at once reads them in
/// another number of steps from another address.
#[repr(align(64))]
struct Aligned([u8; 2048]);

impl Aligned {
    fn new(text: &str) -> Box<Self> {
        let mut aligned = Box::new(Self([0; 2048]));
        aligned.0[..text.len()].copy_from_slice(text.as_bytes());
        aligned
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let classified = STATEMENTS.iter().map(|(name, sql)| {
        Case::new(format!("classify-{name}"), || {
            let text = Aligned::new(sql);
            measure(|| classify(black_box(&text.0[..sql.len()]), LexOptions::default()));
            Ok(())
        })
    });
    let digested = STATEMENTS.iter().map(|(name, sql)| {
        Case::new(format!("digest-{name}"), || {
            let text = Aligned::new(sql);
            let mut normalised = Vec::with_capacity(4096);
            measure(|| {
                normalised.clear();
                digest(black_box(&text.0[..sql.len()]), LexOptions::default(), &mut normalised)
            });
            Ok(())
        })
    });
    let both = STATEMENTS.iter().map(|(name, sql)| {
        Case::new(format!("both-{name}"), || {
            let text = Aligned::new(sql);
            let mut normalised = Vec::with_capacity(4096);
            measure(|| {
                normalised.clear();
                classify_and_digest(black_box(&text.0[..sql.len()]), LexOptions::default(), &mut normalised)
            });
            Ok(())
        })
    });
    classified.chain(digested).chain(both).collect()
}
