-- Moves up to ARGV[1] items that were due by ARGV[3] from the sorted set KEYS[1] to the leases KEYS[2], with the
-- deadline ARGV[2].
local items = redis.call('ZRANGE', KEYS[1], '-inf', ARGV[3], 'BYSCORE', 'LIMIT', 0, ARGV[1])
if #items == 0 then return items end
local leases = {}
for i, item in ipairs(items) do
  leases[2 * i - 1] = ARGV[2]
  leases[2 * i] = item
end
redis.call('ZREM', KEYS[1], unpack(items))
redis.call('ZADD', KEYS[2], unpack(leases))
return items
