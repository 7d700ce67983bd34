//! The schema in which MySQL Router looks for a cluster, made by hand: the least of it that Router 9.7 asks for.
//!
//! Where the real schema has views over tables, this one has tables under the names that Router reads.

use anyhow::{Context, Result};

use crate::cluster::Cluster;
use crate::flavor::{Flavor, Role};
use crate::server::Server;

const SCHEMA: &str = "mysql_innodb_cluster_metadata";
const CLUSTER: &str = "0b5c4b1e-7d1f-4c60-8f4e-6a2f1d9e3c55";
const TEXT: &str = "CHARACTER SET ascii";

/// Makes the schema on the primary; a second time changes nothing.
pub(super) fn install(cluster: &Cluster) -> Result<()> {
    let primary = cluster.servers.first().context("a cluster has at least one server")?;
    let has_schema = primary.query(&format!("SHOW DATABASES LIKE '{SCHEMA}'"))?;
    if !has_schema.is_empty() {
        return Ok(());
    }
    let mut statements = vec![format!("CREATE DATABASE {SCHEMA}"), format!("USE {SCHEMA}")];
    statements.extend(tables());
    statements.extend(views());
    statements.extend(rows(cluster, primary)?);
    primary.query(&statements.join(";\n")).context("MySQL Router's metadata").map(drop)
}

fn tables() -> Vec<String> {
    let id = format!("CHAR(36) {TEXT}");
    vec![
        format!(
            "CREATE TABLE v2_clusters (cluster_id {id} PRIMARY KEY, cluster_name VARCHAR(63), \
             cluster_type VARCHAR(8), group_name VARCHAR(36) {TEXT}, attributes JSON, router_options JSON, \
             clusterset_id {id})"
        ),
        format!(
            "CREATE TABLE v2_instances (instance_id INT UNSIGNED PRIMARY KEY, cluster_id {id}, \
             label VARCHAR(265), mysql_server_uuid {id}, address VARCHAR(265), endpoint VARCHAR(265), \
             xendpoint VARCHAR(265), attributes JSON)"
        ),
        format!(
            "CREATE TABLE v2_ar_members (view_id INT UNSIGNED, cluster_id {id}, instance_id INT UNSIGNED PRIMARY KEY, \
             label VARCHAR(265), member_role VARCHAR(9), master_instance_id INT UNSIGNED, master_member_id {id}, \
             member_id {id}, mysql_server_uuid {id}, address VARCHAR(265), endpoint VARCHAR(265), \
             xendpoint VARCHAR(265), attributes JSON)"
        ),
        // Router is granted rights on the table and on its view by name.
        format!(
            "CREATE TABLE routers (router_id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, router_name VARCHAR(265) NOT NULL, \
             product_name VARCHAR(128) NOT NULL, address VARCHAR(256) {TEXT}, version VARCHAR(12), \
             last_check_in TIMESTAMP NULL, attributes JSON, cluster_id {id}, options JSON, clusterset_id {id}, \
             UNIQUE (address, router_name))"
        ),
    ]
}

fn views() -> Vec<String> {
    let view = |name: &str, select: &str| format!("CREATE SQL SECURITY INVOKER VIEW {name} AS {select}");
    vec![
        view("schema_version", "SELECT 2 AS major, 2 AS minor, 0 AS patch"),
        view("v2_gr_clusters", "SELECT * FROM v2_clusters WHERE cluster_type='gr'"),
        view(
            "v2_ar_clusters",
            "SELECT v2_clusters.*, 1 AS view_id, 'ar' AS async_topology_type FROM v2_clusters \
             WHERE cluster_type='ar'",
        ),
        // A view may not name a system variable itself.
        view(
            "v2_this_instance",
            "SELECT cluster_id, instance_id, cluster_name, cluster_type FROM v2_instances \
             JOIN v2_clusters USING (cluster_id) WHERE mysql_server_uuid=(SELECT CONVERT(VARIABLE_VALUE USING ascii) \
             FROM performance_schema.global_variables WHERE VARIABLE_NAME='server_uuid')",
        ),
        view("v2_routers", "SELECT * FROM routers"),
        view(
            "v2_router_options",
            "SELECT router_id, cluster_id, JSON_MERGE_PATCH(COALESCE(router_options, '{}'), COALESCE(options, '{}')) \
             AS router_options FROM routers LEFT JOIN v2_clusters USING (cluster_id)",
        ),
        view(
            "v2_cs_members",
            "SELECT clusterset_id, cluster_id, cluster_name, 'PRIMARY' AS member_role FROM v2_clusters \
             WHERE clusterset_id IS NOT NULL",
        ),
    ]
}

fn rows(cluster: &Cluster, primary: &Server) -> Result<Vec<String>> {
    let is_group = cluster.flavor == Flavor::Group;
    let (kind, group) = if is_group {
        ("gr", format!("'{}'", primary.query("SELECT @@group_replication_group_name")?))
    } else {
        ("ar", "NULL".to_owned())
    };
    let mut rows = vec![format!(
        "INSERT INTO v2_clusters VALUES ('{CLUSTER}', 'bench', '{kind}', {group}, '{{}}', '{{}}', NULL)"
    )];
    for server in &cluster.servers {
        rows.extend(member(server)?);
    }
    Ok(rows)
}

fn member(server: &Server) -> Result<[String; 2]> {
    let uuid = server.query("SELECT @@server_uuid")?;
    let (id, place) = (server.server_id, format!("{}:{}", server.host, server.port));
    let role = if server.role == Role::Primary { "PRIMARY" } else { "SECONDARY" };
    Ok([
        format!(
            "INSERT INTO v2_instances VALUES ({id}, '{CLUSTER}', '{place}', '{uuid}', '{place}', '{place}', NULL, '{{}}')"
        ),
        format!(
            "INSERT INTO v2_ar_members VALUES (1, '{CLUSTER}', {id}, '{place}', '{role}', NULL, '{uuid}', '{uuid}', \
             '{uuid}', '{place}', '{place}', NULL, '{{}}')"
        ),
    ])
}
