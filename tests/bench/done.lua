-- What wrk measured, as one line of JSON, in the file that BENCH_RESULT names.
return function(summary, latency, requests)
  local f = io.open(os.getenv("BENCH_RESULT"), "w")
  local e = summary.errors
  f:write(string.format('{"n":%d,"seconds":%.6f,"bytes":%d,"status":%d,"connect":%d,"read":%d,"write":%d,"timeout":%d,' ..
    '"p50":%.3f,"p99":%.3f,"p999":%.3f,"max":%.3f}\n', summary.requests, summary.duration / 1e6, summary.bytes, e.status,
    e.connect, e.read, e.write, e.timeout, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    latency:percentile(99.9) / 1e3, latency.max / 1e3))
  f:close()
end
