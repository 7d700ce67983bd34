//! The functions that MySQL and MariaDB have built in, and the words that stand before a parenthesis without being one.
//!
//! Owns: the list. It was compared with MySQL 9.7 and MariaDB 10.11 by making a stored function of each name and looking
//! whether a call reaches it: a name that reaches it must not be here for that product and version. What an older
//! version had and a newer one dropped is left out or bounded, so that nobody's stored function is taken for built in.
//! Two exceptions on MariaDB: `JSON_TABLE`, which is a table there and nothing else, and the constructors of shapes
//! (`POINT`, ..), which a stored function can only shadow by a number of arguments that no shape has.

use super::{Call, Versions};

/// Names that share a meaning and the versions that know them.
pub(super) struct Group {
    pub(super) call: Call,
    pub(super) mysql: Versions,
    pub(super) mariadb: Versions,
    /// Lower-case, with spaces between them.
    pub(super) names: &'static str,
}

const ALWAYS: Versions = from(0);
const NEVER: Versions = from(u32::MAX);

const fn from(version: u32) -> Versions {
    Versions { from: version, below: u32::MAX }
}

const fn below(version: u32) -> Versions {
    Versions { from: 0, below: version }
}

const fn group(call: Call, mysql: Versions, mariadb: Versions, names: &'static str) -> Group {
    Group { call, mysql, mariadb, names }
}

pub(super) static GROUPS: &[Group] = &[
    group(Call::LastInsertId, ALWAYS, ALWAYS, "last_insert_id"),
    group(Call::FoundRows, ALWAYS, ALWAYS, "found_rows"),
    group(Call::RowCount, ALWAYS, ALWAYS, "row_count"),
    group(Call::ConnectionId, ALWAYS, ALWAYS, "connection_id"),
    group(Call::ThreadId, from(80_016), NEVER, "ps_current_thread_id ps_thread_id"),
    group(Call::GetLock, ALWAYS, ALWAYS, "get_lock"),
    group(Call::ReleaseLock, ALWAYS, ALWAYS, "release_lock"),
    group(Call::ReleaseAllLocks, ALWAYS, from(100_502), "release_all_locks"),
    group(Call::LooksAtLock, ALWAYS, ALWAYS, "is_free_lock is_used_lock"),
    group(Call::ServiceGetLocks, ALWAYS, NEVER, "service_get_read_locks service_get_write_locks"),
    group(Call::ServiceReleaseLocks, ALWAYS, NEVER, "service_release_locks"),
    group(Call::Wait, ALWAYS, ALWAYS, "master_pos_wait"),
    group(Call::Wait, ALWAYS, NEVER, "source_pos_wait wait_for_executed_gtid_set"),
    group(Call::Wait, below(90_000), NEVER, "wait_until_sql_thread_after_gtids"),
    group(Call::Wait, NEVER, ALWAYS, "master_gtid_wait wsrep_sync_wait_upto_gtid"),
    group(Call::ServerState, ALWAYS, ALWAYS, "load_file"),
    group(Call::ServerState, NEVER, ALWAYS, "binlog_gtid_pos wsrep_last_seen_gtid wsrep_last_written_gtid"),
    group(Call::Sequence, NEVER, ALWAYS, "lastval nextval setval"),
    group(Call::Tight, ALWAYS, ALWAYS, TIGHT),
    group(Call::Tight, from(50_722), from(100_500), "json_arrayagg json_objectagg"),
    group(Call::Tight, from(80_024), NEVER, "st_collect"),
    group(Call::TightVolatile, ALWAYS, ALWAYS, "curdate curtime now sysdate"),
    group(Call::Pure, ALWAYS, ALWAYS, PURE),
    group(Call::XPath, ALWAYS, ALWAYS, "extractvalue updatexml"),
    group(Call::Volatile, ALWAYS, ALWAYS, VOLATILE),
    group(Call::Default, ALWAYS, ALWAYS, "default"),
    group(Call::Delay, ALWAYS, ALWAYS, "benchmark sleep"),
    group(Call::Pure, ALWAYS, ALWAYS, SPATIAL),
    group(Call::Pure, below(90_600), ALWAYS, "md5 sha sha1"),
    group(Call::Tight, from(80_002), ALWAYS, WINDOW),
    group(Call::Pure, from(80_002), ALWAYS, "last_value row_number"),
    group(Call::Tight, NEVER, ALWAYS, "median percentile_cont percentile_disc"),
    group(Call::Pure, from(80_000), ALWAYS, "current_role regexp_instr regexp_replace regexp_substr"),
    group(Call::Pure, from(50_722), from(100_203), "json_merge_patch json_merge_preserve"),
    group(Call::Pure, from(50_722), from(101_003), "json_pretty"),
    group(Call::Pure, from(80_017), from(100_900), "json_overlaps"),
    group(Call::Pure, from(80_021), from(100_203), "json_value"),
    group(Call::Pure, from(80_004), from(100_600), "json_table"),
    group(Call::Volatile, ALWAYS, from(101_000), "random_bytes"),
    group(Call::Pure, from(50_700), from(101_103), "st_distance_sphere"),
    group(Call::Pure, from(80_017), from(110_101), "json_schema_valid"),
    group(Call::Pure, ALWAYS, NEVER, MYSQL),
    group(Call::Pure, from(80_000), NEVER, "bin_to_uuid grouping is_uuid regexp_like uuid_to_bin"),
    group(Call::Pure, from(80_016), NEVER, MYSQL_8),
    group(Call::Pure, from(80_024), NEVER, MYSQL_8_GEO),
    group(Call::Pure, from(90_000), NEVER, MYSQL_9),
    group(Call::Pure, NEVER, ALWAYS, MARIADB),
    // Its salt is made of the time.
    group(Call::Volatile, NEVER, ALWAYS, "encrypt"),
    group(Call::Pure, NEVER, from(100_600), "add_months rownum to_char"),
    group(Call::Volatile, NEVER, from(100_600), "sys_guid"),
    group(Call::Pure, NEVER, from(100_700), "json_equals json_normalize natural_sort_key sformat"),
    group(Call::Pure, NEVER, from(100_800), "crc32c"),
    group(Call::Pure, NEVER, from(110_200), MARIADB_11),
    group(Call::Pure, NEVER, from(110_701), MARIADB_11_7),
    group(Call::Volatile, NEVER, from(110_701), "uuid_v4 uuid_v7"),
    group(Call::Syntax, ALWAYS, ALWAYS, GRAMMAR),
    group(Call::Syntax, ALWAYS, ALWAYS, TYPES),
    group(Call::Syntax, from(80_000), NEVER, "lateral of array"),
];

const TIGHT: &str = "\
    adddate bit_and bit_or bit_xor cast count date_add date_sub extract group_concat max mid min position \
    session_user std stddev stddev_pop stddev_samp subdate substr substring sum system_user trim variance \
    var_pop var_samp";

const PURE: &str = "\
    abs acos addtime aes_decrypt aes_encrypt ascii asin atan atan2 avg bin bit_count bit_length ceil ceiling \
    char_length character_length coalesce coercibility compress concat concat_ws conv convert convert_tz cos \
    cot crc32 current_user database datediff date_format day dayname dayofmonth dayofweek dayofyear degrees \
    elt exp export_set field find_in_set floor format from_base64 from_days from_unixtime \
    get_format greatest hex hour if ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr interval \
    isnull is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 json_array json_array_append json_array_insert \
    json_contains json_contains_path json_depth json_extract json_insert json_keys json_length json_merge \
    json_object json_quote json_remove json_replace json_search json_set json_type json_unquote json_valid \
    last_day lcase least left length ln locate log log10 log2 lower lpad ltrim makedate maketime make_set \
    microsecond minute mod month monthname name_const nullif oct octet_length ord password period_add \
    period_diff pi pow power quarter quote radians repeat replace reverse right round rpad rtrim schema \
    second sec_to_time sha2 sign sin soundex space sqrt strcmp str_to_date substring_index subtime tan \
    timediff timestampadd timestampdiff time_format time_to_sec to_base64 to_days to_seconds truncate ucase \
    uncompress uncompressed_length unhex upper user value values version week weekday weekofyear \
    weight_string year yearweek";

const VOLATILE: &str = "\
    current_date current_time current_timestamp localtime localtimestamp rand \
    unix_timestamp utc_date utc_time utc_timestamp uuid uuid_short";

const SPATIAL: &str = "\
    mbrcontains mbrdisjoint mbrequals mbrintersects mbroverlaps mbrtouches mbrwithin geometrycollection \
    linestring multilinestring multipoint multipolygon point polygon st_area st_asbinary st_asgeojson \
    st_astext st_aswkb st_aswkt st_buffer st_centroid st_contains st_convexhull st_crosses st_difference \
    st_dimension st_disjoint st_distance st_endpoint st_envelope st_equals st_exteriorring \
    st_geomcollfromtext st_geomcollfromwkb st_geometrycollectionfromtext st_geometrycollectionfromwkb \
    st_geometryfromtext st_geometryfromwkb st_geometryn st_geometrytype st_geomfromgeojson st_geomfromtext \
    st_geomfromwkb st_interiorringn st_intersection st_intersects st_isclosed st_isempty st_issimple \
    st_length st_linefromtext st_linefromwkb st_linestringfromtext st_linestringfromwkb st_mlinefromtext \
    st_mlinefromwkb st_mpointfromtext st_mpointfromwkb st_mpolyfromtext st_mpolyfromwkb \
    st_multilinestringfromtext st_multilinestringfromwkb st_multipointfromtext st_multipointfromwkb \
    st_multipolygonfromtext st_multipolygonfromwkb st_numgeometries st_numinteriorrings st_numpoints \
    st_overlaps st_pointfromtext st_pointfromwkb st_pointn st_polyfromtext st_polyfromwkb st_polygonfromtext \
    st_polygonfromwkb st_srid st_startpoint st_symdifference st_touches st_union st_within st_x st_y";

/// MariaDB looks for stored functions of these names where white space stands before the parenthesis.
const WINDOW: &str = "cume_dist dense_rank first_value lag lead nth_value ntile percent_rank rank";

const MYSQL: &str = "\
    any_value gtid_subset gtid_subtract mbrcoveredby mbrcovers st_buffer_strategy st_geohash st_isvalid \
    st_latfromgeohash st_longfromgeohash st_makeenvelope st_numinteriorring st_pointfromgeohash st_simplify \
    st_validate validate_password_strength";

const MYSQL_8: &str = "\
    format_bytes format_pico_time geomcollection icu_version json_schema_validation_report json_storage_free \
    json_storage_size roles_graphml st_geomcollfromtxt st_latitude st_longitude st_swapxy st_transform \
    statement_digest statement_digest_text";

const MYSQL_8_GEO: &str = "\
    st_frechetdistance st_hausdorffdistance st_lineinterpolatepoint st_lineinterpolatepoints \
    st_pointatdistance";

const MYSQL_9: &str = "\
    from_vector string_to_vector to_vector vector_dim vector_to_string";

const MARIADB: &str = "\
    chr column_add column_check column_create column_delete column_exists column_get column_json column_list \
    decode decode_histogram des_decrypt des_encrypt encode json_compact json_detailed json_exists \
    json_loose json_query lengthb mbrequal nvl nvl2 old_password \
    st_isring st_pointonsurface st_relate";

const MARIADB_11: &str = "\
    json_array_intersect json_key_value json_object_filter_keys json_object_to_array";

const MARIADB_11_7: &str = "\
    vec_distance vec_distance_cosine vec_distance_euclidean vec_fromtext vec_totext";

/// Reserved by both products, so never the name of a function in an unquoted call.
const GRAMMAR: &str = "\
    all and any as asc between both by case collate constraint cross delete desc distinct distinctrow div \
    dual else elseif except exists explain false fetch for force foreign from fulltext group having \
    high_priority ignore in index inner intersect into is join key keys leading like limit lock low_priority \
    match natural not null offset on optimize option or order outer over partition primary procedure range \
    recursive references regexp returning rlike row rows select separator set some spatial sql_big_result \
    sql_calc_found_rows sql_small_result straight_join table then to trailing true union unique update use \
    using when where window with xor";

const TYPES: &str = "\
    bigint binary bit blob bool boolean char character charset date datetime dec decimal double enum fixed \
    float float4 float8 int int1 int2 int3 int4 int8 integer longblob longtext mediumblob mediumint \
    mediumtext middleint national nchar numeric nvarchar precision real signed smallint text time timestamp \
    tinyblob tinyint tinytext unsigned varbinary varchar varcharacter varying zerofill collation";
