-- Moves up to ARGV[1] items from the list KEYS[1] to the leases KEYS[2], with the deadline ARGV[2].
local items = redis.call('RPOP', KEYS[1], ARGV[1])
if not items then return {} end
local leases = {}
for i, item in ipairs(items) do
  leases[2 * i - 1] = ARGV[2]
  leases[2 * i] = item
end
redis.call('ZADD', KEYS[2], unpack(leases))
return items
