#!/bin/bash
# How real clients, browsers, proxies and monitoring use such a store, one check a line: PASS or FAIL.
# usage: field_more.sh, with M and V (host:port of master and volume server), MV (host:port of the volume server's
# -metricsPort), BM (master as `dfs benchmark` takes it) and PROG (path of the program) in the environment; run in an empty folder.
export LC_ALL=C.UTF-8
fid() { curl -s "http://$M/dir/assign?$1" | python3 -c 'import json,sys;print(json.load(sys.stdin)["fid"])'; }
is() { [ "$2" = "$3" ] && echo "PASS $1" || echo "FAIL $1: got [$2] want [$3]"; }
yes() { n=$1; shift; "$@" >/dev/null 2>&1 && echo "PASS $n" || echo "FAIL $n"; }
hd() { curl -s -D - -o /dev/null "$@" | tr -d '\r'; }
hv() { awk -v k="$(echo "$1" | tr A-Z a-z)" -F': ' 'tolower($1)==k{print $2}'; }
code() { curl -s -o /dev/null -w '%{http_code}' "$@"; }
js() { python3 -c 'import json,sys;d=json.load(sys.stdin);print(d.get(sys.argv[1],""))' "$1"; }
form() { curl -s -H "Content-Type: multipart/form-data; boundary=B" --data-binary @"$1" "http://$V/$2"; }
raw() { python3 -c 'import socket,sys
h,p=sys.argv[1].rsplit(":",1);s=socket.create_connection((h,int(p)));s.settimeout(2);s.sendall(sys.stdin.buffer.read());b=b""
try:
  while 1:
    d=s.recv(65536)
    if not d: b+=b"\n<closed>";break
    b+=d
except Exception: b+=b"\n<open>"
sys.stdout.buffer.write(b)' "$1"; }
printf '123123123\n' >a.txt

# F01 a form under PUT is a form
F=$(fid); curl -s -X PUT -F file=@a.txt "http://$V/$F" >/dev/null; is F01 "$(curl -s "http://$V/$F")" 123123123

# F02 chunked, and names cut down to ASCII: an empty name is no name
F=$(fid); printf -- '--B\r\nContent-Disposition: form-data; name="file"; filename=""\r\nContent-Type: text/plain\r\n\r\n123123123\n\r\n--B--\r\n' >b
curl -s -H 'Transfer-Encoding: chunked' -H 'Content-Type: multipart/form-data; boundary=B' --data-binary @b "http://$V/$F" >o
is F02-size "$(js size <o)" 10; is F02-noname "$(hd "http://$V/$F" | hv content-disposition)" ""
F=$(fid); is F02-dot "$(curl -s -H 'Transfer-Encoding: chunked' -F 'file=@a.txt;filename=.txt' "http://$V/$F" | js name)" .txt

# F03 a part without a file name, with a length and a transfer encoding of its own
F=$(fid); printf -- '--B\r\nContent-Disposition: form-data; name="file"\r\nContent-Type: image/jpeg\r\nContent-Length: 5\r\nContent-Transfer-Encoding: binary\r\n\r\nabcde\r\n--B--\r\n' >b
form b "$F" >/dev/null; is F03 "$(curl -s "http://$V/$F")" abcde; is F03-mime "$(hd "http://$V/$F" | hv content-type)" image/jpeg

# F04 whole paths in the name, with and without doubled backslashes
F=$(fid); printf -- '--B\r\nContent-Disposition: form-data; name="f"; filename="C:\\Users\\Public\\Tulips.jpg"\r\n\r\nx\r\n--B--\r\n' >b
is F04-raw "$(form b "$F" | js name)" Tulips.jpg
F=$(fid); printf -- '--B\r\nContent-Disposition: form-data; name="f"; filename="C:\\\\fakepath\\\\photo.png"\r\n\r\nx\r\n--B--\r\n' >b
is F04-doubled "$(form b "$F" | js name)" photo.png

# F05 names come back as they were sent, never as raw line ends in a header
F=$(fid); printf -- '--B\r\nContent-Disposition: form-data; name="f"; filename="📷 a+b 100%%.txt"\r\nContent-Type: text/plain\r\n\r\nx\r\n--B--\r\n' >b
form b "$F" >/dev/null
is F05-emoji "$(hd "http://$V/$F" | hv content-disposition | python3 -c 'import sys,urllib.parse as u;print(u.unquote(sys.stdin.read().strip().split("utf-8"+chr(39)*2)[-1]))')" "📷 a+b 100%.txt"
F=$(fid); printf -- '--B\r\nContent-Disposition: form-data; name="f"; filename="a%%22b%%0Ac.txt"\r\n\r\nx\r\n--B--\r\n' >b
is F05-escapes "$(form b "$F" | js name)" 'a%22b%0Ac.txt'

# F06 a type that is no media type is as none
F=$(fid); printf -- '--B\r\nContent-Disposition: form-data; name="f"; filename="a.png"\r\nContent-Type: png\r\n\r\nx\r\n--B--\r\n' >b
form b "$F" >/dev/null; is F06 "$(hd "http://$V/$F" | hv content-type)" image/png

# F07 two files in a form: the first counts, nothing of the second leaks into it
echo two >t2; F=$(fid); is F07 "$(curl -s -F f1=@a.txt -F f2=@t2 "http://$V/$F" | js name) $(curl -s "http://$V/$F")" "a.txt 123123123"

# F08 the slash form and an extension are taken for uploads too
F=$(fid); is F08 "$(code -F file=@a.txt "http://$V/$(echo "$F" | tr , /)")" 201
F=$(fid); is F08-ext "$(code -F file=@a.txt "http://$V/$F.txt") $(code "http://$V/$F")" "201 200"

# F09 empty parameters are defaults, unknown ones are ignored
is F09-empty "$(code "http://$M/dir/assign?count=1&collection=&replication=&ttl=&dataCenter=&rack=&disk=")" 200
is F09-unknown "$(code "http://$M/dir/assign?collenction=3mc")" 200
is F09-post "$(code -X POST -H 'Content-Type:' -d '' "http://$M/dir/assign?replication=000")" 200

# F10 times to live are exact or refused
for t in 30s 1439m m 3%20m 0m 256y; do c=$(code "http://$M/dir/assign?ttl=$t"); yes "F10 $t $c" test "${c#4}" != "$c"; done
for t in 1440m 300m 24h 100y 5 3M; do is "F10 $t" "$(code "http://$M/dir/assign?ttl=$t")" 200; done
F=$(fid); c=$(code -F file=@a.txt "http://$V/$F?ttl=30s"); yes "F10 upload $c" test "${c#4}" != "$c"

# F11 pages of other origins may read from the master, errors included; the preflight works
o='Origin: http://app.test'
is F11-master "$(hd -H "$o" "http://$M/dir/assign" | hv access-control-allow-origin)" '*'
is F11-lookup "$(hd -H "$o" "http://$M/dir/lookup?volumeId=99999" | hv access-control-allow-origin)" '*'
is F11-404 "$(hd -H "$o" "http://$V/1,ffff00000000" | hv access-control-allow-origin)" '*'
is F11-closed "$(hd -H "$o" "http://$M/vol/vacuum?garbageThreshold=0.99" | hv access-control-allow-origin)" ''
F=$(fid)
is F11-preflight "$(hd -X OPTIONS -H "$o" -H 'Access-Control-Request-Method: PUT' -H 'Access-Control-Request-Headers: content-type,x-requested-with' "http://$V/$F" | grep -ci '^access-control-allow-\(origin\|methods\|headers\)')" 3
is F11-preflight-master "$(hd -X OPTIONS -H "$o" -H 'Access-Control-Request-Method: GET' "http://$M/dir/assign" | grep -ci '^access-control-allow-origin')" 1

# F12 media types that players take
F=$(fid); curl -s -F 'file=@a.txt;filename=i.m3u8;type=application/octet-stream' "http://$V/$F" >/dev/null
yes F12-m3u8 grep -qi mpegurl <(hd "http://$V/$F" | hv content-type)
F=$(fid); head -c 3000 /dev/urandom >s.ts; curl -s -F 'file=@s.ts;type=application/octet-stream' "http://$V/$F" >/dev/null
is F12-ts "$(hd "http://$V/$F" | hv content-type)" video/mp2t

# F13 health checks, by GET and HEAD
for u in $M/cluster/healthz $M/cluster/status $M/healthz $M/readyz $M/dir/status $M/vol/status $M/ $V/healthz $V/readyz $V/status; do
	is "F13 /${u#*/}" "$(code -I "http://$u") $(code "http://$u")" "200 200"
done
yes F13-small test "$(curl -s "http://$V/healthz" | wc -c)" -lt 1024
is F13-host "$(code -H 'Host: 0.0.0.0:9333' "http://$M/cluster/healthz")" 200

# F14 a load balancer's OPTIONS in HTTP/1.0 without a Host
for h in $M $V; do printf 'OPTIONS / HTTP/1.0\r\n\r\n' | raw "$h" >o; is F14 "$(head -1 o | cut -d' ' -f2) $(tail -1 o)" "200 <closed>"; done
is F14-status "$(code -X OPTIONS "http://$V/status")" 200

# F15 HTTP/1.0 never gets chunks, not for manifests either; its keep-alive is honoured
head -c 1000 /dev/urandom >c1; head -c 700 /dev/urandom >c2; A=$(fid); C=$(fid); X=$(fid)
curl -s -F file=@c1 "http://$V/$A" >/dev/null; curl -s -F file=@c2 "http://$V/$C" >/dev/null
printf '{"name":"big.mp4","mime":"video/mp4","size":1700,"chunks":[{"fid":"%s","offset":1000,"size":700},{"fid":"%s","offset":0,"size":1000}]}' "$C" "$A" >man.json
curl -s -F 'file=@man.json;type=application/json' "http://$V/$X?cm=true" >/dev/null
printf 'GET /%s HTTP/1.0\r\n\r\n' "$X" | raw "$V" >o
is F15-len "$(tr -d '\r' <o | grep -ai '^content-length' | cut -d' ' -f2) $(grep -aci '^transfer-encoding' o)" "1700 0"
cat c1 c2 >c12; yes F15-body cmp c12 <(curl -s "http://$V/$X")
printf 'GET /%s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n' "$A" | raw "$V" >o
is F15-keep "$(grep -aci '^connection: keep-alive' o) $(tail -c 6 o)" "1 <open>"

# F16 what asks for a smaller picture gets the original
F=$(fid); curl -s -F 'file=@a.txt;filename=bad.png;type=image/png' "http://$V/$F" >/dev/null
for q in width=50 width=abc width=-5 'width=50000&height=50000' mode=fit; do is "F16 $q" "$(curl -s "http://$V/$F?$q")" 123123123; done

# F17 stored bytes are the sent bytes
python3 -c 'import base64,sys;sys.stdout.buffer.write(base64.b64decode("/9j/4QAiRXhpZgAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAD/2Q=="))' >e.jpg
F=$(fid); curl -s -F 'file=@e.jpg;type=image/jpeg' "http://$V/$F" >/dev/null; yes F17 cmp e.jpg <(curl -s "http://$V/$F")

# F18 lengths belong to the bytes that are sent; what is a .gz stays one
python3 -c "import random;random.seed(1);print('\n'.join(' '.join(random.choice(['weed','grass','moss','fern','kelp']) for _ in range(12)) for _ in range(20000)))" >big.txt
N=$(stat -c %s big.txt); gzip -kf big.txt
F=$(fid); curl -s -F 'file=@big.txt;type=text/plain' "http://$V/$F" >/dev/null
is F18-plain "$(curl -sI "http://$V/$F" | tr -d '\r' | hv content-length) $(curl -s "http://$V/$F" | wc -c)" "$N $N"
is F18-gzip "$(curl -sI -H 'Accept-Encoding: gzip' "http://$V/$F" | tr -d '\r' | hv content-length)" "$(curl -s -H 'Accept-Encoding: gzip' "http://$V/$F" | wc -c)"
yes F18-inflate cmp big.txt <(curl -s --compressed "http://$V/$F"); is F18-cm "$(code "http://$V/$F?cm=false")" 200
F=$(fid); curl -s -F file=@big.txt.gz "http://$V/$F" >/dev/null; yes F18-gz cmp big.txt.gz <(curl -s "http://$V/$F")
F=$(fid); curl -s -F 'file=@big.txt;type=binary/data' "http://$V/$F" >/dev/null
is F18-binary "$(hd -H 'Accept-Encoding: gzip' "http://$V/$F" | hv content-encoding)" ""

# F22 names, order and form of the metrics that alerts match as text
curl -s "http://$MV/metrics" >mt
for t in all free used; do yes F22-$t grep -qE "^SeaweedFS_volumeServer_resource\{name=\"[^\"]+\",type=\"$t\"\} [0-9.e+]+$" mt; done
yes F22-order grep -qE '^SeaweedFS_volumeServer_request_total\{code="201",type="POST"\} [0-9.e+]+$' mt
is F22-sum "$(awk '/^SeaweedFS_volumeServer_resource\{/{split($0,a,"type=\"");split(a[2],b,"\"");s[b[1]]+=$2}END{d=s["all"]-s["free"]-s["used"];print (d<1e6&&d>-1e6)?"adds up":d}' mt)" "adds up"
yes F22-disk grep -qE '^SeaweedFS_volumeServer_total_disk_size\{.*\} [0-9.e+]+$' mt
yes F22-volumes grep -qE '^SeaweedFS_volumeServer_volumes\{.*type="volume"\} [0-9.e+]+$' mt
yes F22-name grep -qF "name=\"$DIR\"" mt

# F23 the benchmark as people call it and cut its output
b() { timeout 60 "$PROG" benchmark -master="$BM" -n 500 -c 4 "$@"; }
b -size 1024 -fsync -list ./l1 >o 2>&1; is F23-fsync $? 0
is F23-two-phases "$(grep 'Requests per second' o | awk '{print $4}' | grep -cE '^[0-9]+\.[0-9]{2}$')" 2
is F23-bytes "$(awk '/^Total transferred:/{n++;if($3<500*1024)bad=1}END{print n, bad+0}' o)" "2 0"
is F23-99 "$(awk '/^ *99%/{n++; if($2!~/^[0-9]+\.[0-9]$/)bad=1}END{print (n<=2&&!bad)?"well formed":"bad"}' o)" "well formed"
b -size 3000 -collection 10000_benchmark2 -fsync=false -list ./l2 >o 2>&1; is F23-collection $? 0
b -write=true -list ./l3 >o 2>&1; is F23-write $? 0
is F23-lines "$(grep -vc "^#" l3)" 500
b -read=false -list ./l4 >o 2>&1; is F23-read-false "$? $(grep -c 'Reading Benchmark' o)" "0 0"
b -list ./nodir/x >o 2>&1; r=$?; yes "F23-list exit $r" test $r -ne 0 -a "$(wc -l <o)" -le 6
