-- Availability: by version, fault in place when an operation began, and kind of operation, how many were acknowledged.
-- An operation under two kinds of faults counts for each; `none` is for those under no fault. The interval is that of the share that was acknowledged.
WITH begun AS (
  SELECT run, time AS begins, get_json_object(value, '$.nemesis') AS nemesis, get_json_object(value, '$.id') AS id
  FROM notes WHERE f = 'fault-begins'
), ended AS (
  SELECT run, get_json_object(value, '$.id') AS id, MIN(time) AS ends FROM notes WHERE f = 'fault-ends'
  GROUP BY run, get_json_object(value, '$.id')
), windows AS (
  SELECT b.run, collect_list(struct(b.nemesis, b.begins, e.ends)) AS faults
  FROM begun b LEFT JOIN ended e ON e.run = b.run AND e.id = b.id GROUP BY b.run
), marked AS (
  SELECT o.system, o.f, o.type, array_distinct(transform(
           filter(w.faults, one -> one.begins <= o.invoked AND (one.ends IS NULL OR one.ends >= o.invoked)),
           one -> one.nemesis)) AS faults
  FROM operations o LEFT JOIN windows w ON w.run = o.run
)
SELECT system, COALESCE(fault, 'none') AS fault, f, COUNT(*) AS attempts,
       COUNT_IF(type = 'ok') AS ok, COUNT_IF(type = 'fail') AS fail, COUNT_IF(type = 'info') AS info
FROM marked LATERAL VIEW OUTER explode(faults) AS fault
GROUP BY system, COALESCE(fault, 'none'), f
ORDER BY system, f, fault
