-- GET a random line of a list.  wrk -s get.lua URL -- LIST
local requests, n, thread_count = {}, 0, 0
function setup(thread)
  thread:set("number", thread_count)
  thread_count = thread_count + 1
end
function init(args)
  math.randomseed(7919 * (number + 1))
  for line in io.lines(args[1]) do
    if line:sub(1, 1) ~= "#" then
      n = n + 1
      requests[n] = wrk.format("GET", "/" .. line)
    end
  end
end
function request() return requests[math.random(n)] end
done = dofile(os.getenv("BENCH_LUA") .. "/done.lua")
