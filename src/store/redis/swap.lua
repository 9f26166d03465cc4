-- Compares a record's version and swaps the record. Nothing is decided here: the rules are in
-- crates/decision, and what they made of the record is swapped in whole or not at all.
--
-- KEYS[1]  the record: a hash of v (its version) and d (its bytes)
-- KEYS[2]  what the shard remembers: a hash of v (its last version) and e (its highest epoch)
-- KEYS[3]  the shard's index: a sorted set of record ids by the store's time of their last
--          change, in milliseconds
--          All three are in one slot: their hash tag is the shard.
-- ARGV[1]  look   compare only
--          put    swap ARGV[4] in
--          drop   delete the record
-- ARGV[2]  the version that the record must have; empty: there must be none
-- ARGV[3]  the record's id in the index; empty: it is not listed
-- ARGV[4]  the new bytes (put)
-- ARGV[5]  how long the record is kept, in milliseconds (put)
-- ARGV[6]  how long the shard's own keys are kept, in milliseconds
-- ARGV[7]  the epoch of the record: one that is made later begins above it
-- ARGV[8]  the channel of the shard's changes; empty: nobody is told
-- ARGV[9]  who is told of there, and by whom (put, drop)
-- ARGV[10] 1: followed by a space, the new version, a space and the new bytes
--
-- Returns {1, version, time} where the version was the expected one,
--         {0, version, time, bytes, epoch} where it was not. Version and bytes are empty where
--         there is no record; epoch is the highest that the shard has seen, 0 for none. Time is
--         the store's, in microseconds since 1970.
--
-- A version is above every other of its shard, and the time in microseconds at least: a record
-- that was deleted and made again never bears the version of before, also not after the store
-- has lost everything.
--
-- What is refused changes no record: the store takes nothing back that a script has done before an
-- error, so the record itself comes last. That nobody could be told of it is no error of a swap
-- that was made.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local held = redis.call('HGET', KEYS[1], 'v') or ''

if held ~= ARGV[2] then
  if held == '' and ARGV[3] ~= '' then
    redis.call('ZREM', KEYS[3], ARGV[3])
  end
  local epoch = tonumber(redis.call('HGET', KEYS[2], 'e') or 0)
  return {0, held, now, redis.call('HGET', KEYS[1], 'd') or '', epoch}
end
if ARGV[1] == 'look' then
  return {1, held, now}
end

local known = redis.call('HMGET', KEYS[2], 'v', 'e')
local version = string.format('%.0f', math.max(now, tonumber(known[1] or 0) + 1))
local epoch = string.format('%.0f', math.max(tonumber(known[2] or 0), tonumber(ARGV[7])))
redis.call('HSET', KEYS[2], 'v', version, 'e', epoch)
redis.call('PEXPIRE', KEYS[2], ARGV[6])
if ARGV[1] == 'drop' then
  redis.call('ZREM', KEYS[3], ARGV[3])
  redis.call('DEL', KEYS[1])
  version = ''
else
  if ARGV[3] ~= '' then
    redis.call('ZADD', KEYS[3], math.floor(now / 1000), ARGV[3])
    redis.call('PEXPIRE', KEYS[3], ARGV[6])
  end
  redis.call('HSET', KEYS[1], 'v', version, 'd', ARGV[4])
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
if ARGV[8] ~= '' then
  local told = ARGV[9]
  if ARGV[10] == '1' then
    told = told .. ' ' .. version .. ' ' .. ARGV[4]
  end
  redis.pcall('PUBLISH', ARGV[8], told)
end
return {1, version, now}
