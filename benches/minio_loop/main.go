// Puts or gets objects with minio-go for a fixed time on a fixed number of connections: the peer of our S3 client.
// The first line of standard input is the request. The output is that of benches/files_generator.py: a line at the
// start of the window, one at its end, and the result.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	ramp        = 200 * time.Millisecond // as long as ours
	bufferBytes = 65536                  // per read and write, as ours
)

type request struct {
	Address     string  `json:"address"`
	Bucket      string  `json:"bucket"`
	KeyID       string  `json:"key_id"`
	Secret      string  `json:"secret"`
	Operation   string  `json:"operation"`
	Bytes       int     `json:"object_bytes"`
	Objects     int     `json:"objects"`
	Connections int     `json:"connections"`
	Seconds     float64 `json:"seconds"`
	Secure      bool    `json:"secure"`
}

type tally struct {
	operations, errors atomic.Int64
	firstError         atomic.Value
}

func (counts *tally) add(err error) {
	if err == nil {
		counts.operations.Add(1)
		return
	}
	counts.errors.Add(1)
	counts.firstError.CompareAndSwap(nil, err.Error())
}

func put(core minio.Core, asked *request, key string, content []byte) error {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE(content))
	options := minio.PutObjectOptions{
		DisableContentSha256: true,
		UserMetadata:         map[string]string{"x-amz-checksum-crc32": base64.StdEncoding.EncodeToString(sum[:])},
	}
	reader, size := bytes.NewReader(content), int64(len(content))
	stored, err := core.PutObject(context.Background(), asked.Bucket, key, reader, size, "", "", options)
	if err == nil && stored.ETag == "" {
		return fmt.Errorf("PUT %s: no ETag", key)
	}
	return err
}

func get(core minio.Core, asked *request, key string, buffer []byte) error {
	body, _, _, err := core.GetObject(context.Background(), asked.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer body.Close()
	got := 0
	for {
		count, err := body.Read(buffer)
		got += count
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if got != asked.Bytes {
		return fmt.Errorf("GET %s: %d bytes of %d", key, got, asked.Bytes)
	}
	return nil
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}

func say(fields map[string]any) {
	line, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func open(asked *request) (minio.Core, error) {
	core, err := minio.NewCore(asked.Address, &minio.Options{
		Creds:        credentials.NewStaticV4(asked.KeyID, asked.Secret, ""),
		Region:       "us-east-1",
		BucketLookup: minio.BucketLookupPath,
		MaxRetries:   1,
		Secure:       asked.Secure,
		Transport: &http.Transport{
			MaxIdleConns:        asked.Connections,
			MaxIdleConnsPerHost: asked.Connections,
			MaxConnsPerHost:     asked.Connections,
			ReadBufferSize:      bufferBytes,
			WriteBufferSize:     bufferBytes,
			DisableCompression:  true,
			TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // as ours: the certificate is created for this run
		},
	})
	if err != nil {
		return minio.Core{}, err
	}
	return *core, nil
}

func run(asked *request) error {
	core, err := open(asked)
	if err != nil {
		return err
	}
	content := make([]byte, asked.Bytes)
	if _, err := rand.Read(content); err != nil {
		return err
	}
	var counts tally
	var stop atomic.Bool
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for connection := range asked.Connections {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			key := func(number int) string {
				return fmt.Sprintf("minio-go/%d/%d", connection, number%asked.Objects)
			}
			for number := range asked.Objects {
				if err := put(core, asked, key(number), content); err != nil {
					counts.add(err)
				}
			}
			ready.Done()
			<-begin
			buffer := make([]byte, bufferBytes)
			for number := 0; !stop.Load(); number++ {
				if asked.Operation == "put" {
					counts.add(put(core, asked, key(number), content))
				} else {
					counts.add(get(core, asked, key(number), buffer))
				}
			}
		}()
	}
	ready.Wait()
	close(begin)
	time.Sleep(ramp)
	opened, before, cpu := time.Now(), counts.operations.Load(), cpuSeconds()
	say(map[string]any{"moment": "open", "cpu_s": cpu})
	time.Sleep(time.Duration(asked.Seconds * float64(time.Second)))
	window, after, cpu := time.Since(opened), counts.operations.Load(), cpuSeconds()
	say(map[string]any{"moment": "closed", "cpu_s": cpu})
	stop.Store(true)
	done.Wait()
	first, _ := counts.firstError.Load().(string)
	say(map[string]any{"result": map[string]any{
		"operations":           counts.operations.Load(),
		"operations_in_window": after - before,
		"bytes_in_window":      (after - before) * int64(asked.Bytes),
		"window_s":             window.Seconds(),
		"errors":               counts.errors.Load(),
		"first_error":          first,
	}})
	return nil
}

func main() {
	var asked request
	err := json.NewDecoder(os.Stdin).Decode(&asked)
	if err == nil {
		err = run(&asked)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
