// The part of Cassandra's Thrift interface 19.20.0 (Cassandra 1.0.x, checked against the server classes of 1.0.12) that is used here.
// Definitions of keyspaces, column families and columns are whole: they are read, changed and sent back.

const string VERSION = "19.20.0"

enum ConsistencyLevel {
  ONE = 1,
  QUORUM = 2,
  LOCAL_QUORUM = 3,
  EACH_QUORUM = 4,
  ALL = 5,
  ANY = 6,
  TWO = 7,
  THREE = 8,
}

enum IndexType {
  KEYS = 0,
  CUSTOM = 1,
}

enum Compression {
  GZIP = 1,
  NONE = 2,
}

enum CqlResultType {
  ROWS = 1,
  VOID = 2,
  INT = 3,
}

// ── what can go wrong

exception NotFoundException {
}

exception InvalidRequestException {
  1: required string why
}

exception UnavailableException {
}

exception TimedOutException {
}

exception SchemaDisagreementException {
}

// ── definitions

struct ColumnDef {
  1: required binary name,
  2: required string validation_class,
  3: optional IndexType index_type,
  4: optional string index_name,
  5: optional map<string, string> index_options,
}

struct CfDef {
  1: required string keyspace,
  2: required string name,
  3: optional string column_type,
  5: optional string comparator_type,
  6: optional string subcomparator_type,
  8: optional string comment,
  9: optional double row_cache_size,
  11: optional double key_cache_size,
  12: optional double read_repair_chance,
  13: optional list<ColumnDef> column_metadata,
  14: optional i32 gc_grace_seconds,
  15: optional string default_validation_class,
  16: optional i32 id,
  17: optional i32 min_compaction_threshold,
  18: optional i32 max_compaction_threshold,
  19: optional i32 row_cache_save_period_in_seconds,
  20: optional i32 key_cache_save_period_in_seconds,
  24: optional bool replicate_on_write,
  25: optional double merge_shards_chance,
  26: optional string key_validation_class,
  27: optional string row_cache_provider,
  28: optional binary key_alias,
  29: optional string compaction_strategy,
  30: optional map<string, string> compaction_strategy_options,
  31: optional i32 row_cache_keys_to_save,
  32: optional map<string, string> compression_options,
  33: optional double bloom_filter_fp_chance,
}

struct KsDef {
  1: required string name,
  2: required string strategy_class,
  3: optional map<string, string> strategy_options,
  4: optional i32 replication_factor,
  5: required list<CfDef> cf_defs,
  6: optional bool durable_writes,
}

struct EndpointDetails {
  1: string host,
  2: string datacenter,
  3: optional string rack,
}

struct TokenRange {
  1: required string start_token,
  2: required string end_token,
  3: required list<string> endpoints,
  4: optional list<string> rpc_endpoints,
  5: optional list<EndpointDetails> endpoint_details,
}

// ── rows

struct Column {
  1: required binary name,
  2: optional binary value,
  3: optional i64 timestamp,
  4: optional i32 ttl,
}

struct SuperColumn {
  1: required binary name,
  2: required list<Column> columns,
}

struct CounterColumn {
  1: required binary name,
  2: required i64 value,
}

struct CounterSuperColumn {
  1: required binary name,
  2: required list<CounterColumn> columns,
}

struct ColumnOrSuperColumn {
  1: optional Column column,
  2: optional SuperColumn super_column,
  3: optional CounterColumn counter_column,
  4: optional CounterSuperColumn counter_super_column,
}

struct ColumnParent {
  3: required string column_family,
  4: optional binary super_column,
}

struct ColumnPath {
  3: required string column_family,
  4: optional binary super_column,
  5: optional binary column,
}

struct SliceRange {
  1: required binary start,
  2: required binary finish,
  3: required bool reversed,
  4: required i32 count,
}

struct SlicePredicate {
  1: optional list<binary> column_names,
  2: optional SliceRange slice_range,
}

struct KeyRange {
  1: optional binary start_key,
  2: optional binary end_key,
  3: optional string start_token,
  4: optional string end_token,
  5: required i32 count,
}

struct KeySlice {
  1: required binary key,
  2: required list<ColumnOrSuperColumn> columns,
}

struct Deletion {
  1: optional i64 timestamp,
  2: optional binary super_column,
  3: optional SlicePredicate predicate,
}

struct Mutation {
  1: optional ColumnOrSuperColumn column_or_supercolumn,
  2: optional Deletion deletion,
}

// ── CQL

struct CqlRow {
  1: required binary key,
  2: required list<Column> columns,
}

struct CqlMetadata {
  1: required map<binary, string> name_types,
  2: required map<binary, string> value_types,
  3: required string default_name_type,
  4: required string default_value_type,
}

struct CqlResult {
  1: required CqlResultType type,
  2: optional list<CqlRow> rows,
  3: optional i32 num,
  4: optional CqlMetadata schema,
}

service Cassandra {
  string describe_version(),
  string describe_cluster_name(),
  map<string, list<string>> describe_schema_versions() throws (1: InvalidRequestException ire),
  list<KsDef> describe_keyspaces() throws (1: InvalidRequestException ire),
  KsDef describe_keyspace(
    1: required string keyspace
  ) throws (1: NotFoundException nfe, 2: InvalidRequestException ire),
  list<TokenRange> describe_ring(1: required string keyspace) throws (1: InvalidRequestException ire),

  void set_keyspace(1: required string keyspace) throws (1: InvalidRequestException ire),
  string system_add_keyspace(
    1: required KsDef ks_def
  ) throws (1: InvalidRequestException ire, 2: SchemaDisagreementException sde),
  string system_update_keyspace(
    1: required KsDef ks_def
  ) throws (1: InvalidRequestException ire, 2: SchemaDisagreementException sde),
  string system_drop_keyspace(
    1: required string keyspace
  ) throws (1: InvalidRequestException ire, 2: SchemaDisagreementException sde),
  string system_add_column_family(
    1: required CfDef cf_def
  ) throws (1: InvalidRequestException ire, 2: SchemaDisagreementException sde),
  string system_update_column_family(
    1: required CfDef cf_def
  ) throws (1: InvalidRequestException ire, 2: SchemaDisagreementException sde),
  string system_drop_column_family(
    1: required string column_family
  ) throws (1: InvalidRequestException ire, 2: SchemaDisagreementException sde),

  ColumnOrSuperColumn get(
    1: required binary key,
    2: required ColumnPath column_path,
    3: required ConsistencyLevel consistency_level
  ) throws (1: InvalidRequestException ire, 2: NotFoundException nfe, 3: UnavailableException ue, 4: TimedOutException te),
  list<ColumnOrSuperColumn> get_slice(
    1: required binary key,
    2: required ColumnParent column_parent,
    3: required SlicePredicate predicate,
    4: required ConsistencyLevel consistency_level
  ) throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te),
  map<binary, list<ColumnOrSuperColumn>> multiget_slice(
    1: required list<binary> keys,
    2: required ColumnParent column_parent,
    3: required SlicePredicate predicate,
    4: required ConsistencyLevel consistency_level
  ) throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te),
  list<KeySlice> get_range_slices(
    1: required ColumnParent column_parent,
    2: required SlicePredicate predicate,
    3: required KeyRange range,
    4: required ConsistencyLevel consistency_level
  ) throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te),
  void insert(
    1: required binary key,
    2: required ColumnParent column_parent,
    3: required Column column,
    4: required ConsistencyLevel consistency_level
  ) throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te),
  void remove(
    1: required binary key,
    2: required ColumnPath column_path,
    3: required i64 timestamp,
    4: ConsistencyLevel consistency_level
  ) throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te),
  void batch_mutate(
    1: required map<binary, map<string, list<Mutation>>> mutation_map,
    2: required ConsistencyLevel consistency_level
  ) throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te),
  void truncate(1: required string cfname) throws (1: InvalidRequestException ire, 2: UnavailableException ue),

  CqlResult execute_cql_query(
    1: required binary query,
    2: required Compression compression
  ) throws (1: InvalidRequestException ire, 2: UnavailableException ue, 3: TimedOutException te, 4: SchemaDisagreementException sde),
}
