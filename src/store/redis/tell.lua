-- Writes down what happened, each thing once, in one order for the whole fleet.
--
-- KEYS[1]  what happened: a stream; the first part of an id is the number of the event
-- KEYS[2]  the last of its own numbers that this run of this replica has told
--          Both are in one slot.
-- ARGV[1]  its own number of the first event here; the others follow it
-- ARGV[2]  the highest number of the stream that it knows
-- ARGV[3]  how many events are kept, about
-- ARGV[4]  how long the stream is kept, in milliseconds
-- ARGV[5]  how long KEYS[2] is kept, in milliseconds
-- ARGV[6]  the channel of news
-- ARGV[7]  and so on: the events
--
-- Returns the number of the newest event. Numbers rise by one. Where the store has lost the
-- stream, or its end, they go on a thousand higher, above what others may have seen. Where it is
-- refused nothing is told: the store takes nothing back that a script has done before an error.
local told = tonumber(redis.call('GET', KEYS[2]) or 0)
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local newest = 0
if last then
  newest = tonumber(string.match(last[1], '^%d+'))
end
if tonumber(ARGV[2]) > newest then
  newest = tonumber(ARGV[2]) + 1000
end
local number = tonumber(ARGV[1])
-- What could not be written down afterwards would be told again and again.
redis.call('SET', KEYS[2], string.format('%.0f', told), 'PX', ARGV[5])
for at = 7, #ARGV do
  if number > told then
    newest = newest + 1
    local id = string.format('%.0f-0', newest)
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], id, 'e', ARGV[at])
    told = number
  end
  number = number + 1
end
redis.call('SET', KEYS[2], string.format('%.0f', told), 'PX', ARGV[5])
redis.pcall('PEXPIRE', KEYS[1], ARGV[4])
redis.pcall('PUBLISH', ARGV[6], 'e')
return newest
