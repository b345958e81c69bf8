set -eu
"/usr/sbin/rpcbind"
while [ ! -e "/tmp/serverdyno-ganesha-256c024a57175dd0/volumes-are-there" ]; do sleep 0.02; done
exec "/usr/bin/ganesha.nfsd" -F -f "/tmp/serverdyno-ganesha-256c024a57175dd0/ganesha.conf" -p "/tmp/serverdyno-ganesha-256c024a57175dd0/ganesha.pid" -L STDERR
