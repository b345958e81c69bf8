set -eu
"/usr/sbin/rpcbind"
while [ ! -e "/tmp/serverdyno-ganesha-dd4da843c7919862/volumes-are-there" ]; do sleep 0.02; done
exec "/usr/bin/ganesha.nfsd" -F -f "/tmp/serverdyno-ganesha-dd4da843c7919862/ganesha.conf" -p "/tmp/serverdyno-ganesha-dd4da843c7919862/ganesha.pid" -L STDERR
