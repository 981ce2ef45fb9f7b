-- POST a form of SIZE bytes to a new id each time.  wrk -s post.lua URL -- RANGES SIZE
-- Lines of RANGES: volume, first key, cookie; each names a range of at least 4,000,000 keys that were assigned at once.
-- Every thread takes a slice of 1,000,000 keys of its own, so no id is used twice.
local SLICE = 1000000
local thread_count = 0
function setup(thread)
  thread:set("number", thread_count)
  thread_count = thread_count + 1
end
local ranges, n, counter, body, header = {}, 0, 0, nil, nil
function init(args)
  for line in io.lines(args[1]) do
    local volume, key, cookie = line:match("(%S+) (%S+) (%S+)")
    n = n + 1
    ranges[n] = { volume, tonumber(key) + number * SLICE, cookie }
  end
  local b = "----dfsbench7d1"
  body = "--" .. b .. "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"t\"\r\n" ..
    "Content-Type: application/octet-stream\r\n\r\n" .. string.rep("\1\0\2\3", tonumber(args[2]) / 4) .. "\r\n--" .. b .. "--\r\n"
  header = { ["Content-Type"] = "multipart/form-data; boundary=" .. b }
end
function request()
  local r = ranges[counter % n + 1]
  local key = r[2] + math.floor(counter / n)
  counter = counter + 1
  return wrk.format("POST", string.format("/%s,%x%s", r[1], key, r[3]), header, body)
end
done = dofile(os.getenv("BENCH_LUA") .. "/done.lua")
