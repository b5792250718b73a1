//! One fresh key pair for each end of each transfer, exchanged over ssh and pinned by the other end.
//!
//! TLS carries raw public keys (RFC 7250) instead of certificates. Certificates aren't needed, because ssh has
//! authenticated both ends before the keys are exchanged.

use ::aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible,
    ServerConfig, SignatureScheme,
};
use std::sync::Arc;

/// The key pair of this end.
pub struct Keys {
    certified: Arc<CertifiedKey>,
    provider: Arc<CryptoProvider>,
}

/// The TLS settings by which a data connection proves this end's identity and checks the other end's.
#[derive(Clone)]
pub struct Pinned {
    /// The settings for the end that opens the connection.
    pub client: Arc<ClientConfig>,
    /// The settings for the end that accepts the connection.
    pub server: Arc<ServerConfig>,
}

impl Keys {
    /// Makes an Ed25519 key pair.
    ///
    /// # Errors
    /// If the system's random number generator fails.
    pub fn generate() -> Result<Self, Error> {
        let failed = |what: &str| Error::General(format!("making a key pair failed: {what}"));
        let pair = aws_lc_rs_pair().map_err(failed)?;
        // The key is borrowed and not copied, because the library wipes its own buffer when the buffer is dropped.
        let key = aws_lc_rs::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(pair.as_ref()))?;
        let public = key.public_key().ok_or_else(|| failed("no public key"))?;
        let certificate = CertificateDer::from(public.to_vec());
        let certified = Arc::new(CertifiedKey::new(vec![certificate], key));
        Ok(Self { certified, provider: Arc::new(provider()) })
    }

    /// DER of the public key's SubjectPublicKeyInfo, for [`linerate_wire::control::Hello`].
    pub fn public(&self) -> &[u8] {
        &self.certified.cert[0]
    }

    /// Configurations that accept only `peer`'s key (DER of its SubjectPublicKeyInfo).
    ///
    /// # Errors
    /// If the library refuses the settings.
    pub fn pin(&self, peer: &[u8]) -> Result<Pinned, Error> {
        let pin = Arc::new(Pin {
            key: CertificateDer::from(peer.to_vec()),
            algorithms: self.provider.signature_verification_algorithms,
        });
        let tls13 = &[&rustls::version::TLS13];
        let mut client = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(tls13)?
            .dangerous()
            .with_custom_certificate_verifier(pin.clone())
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
                self.certified.clone(),
            )));
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        client.enable_secret_extraction = true;
        let mut server = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(tls13)?
            .with_client_cert_verifier(pin)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(self.certified.clone())));
        server.send_tls13_tickets = 0;
        // This program encrypts records itself with the library's ciphers, in its own buffers
        // (crate::net::tls), so it needs the secrets.
        server.enable_secret_extraction = true;
        Ok(Pinned { client: Arc::new(client), server: Arc::new(server) })
    }
}

fn aws_lc_rs_pair() -> Result<Pkcs8V1Der<'static>, &'static str> {
    use ::aws_lc_rs::signature::Ed25519KeyPair;
    let pair = Ed25519KeyPair::generate().map_err(|_| "no randomness")?;
    pair.as_der().map_err(|_| "the key can't be encoded")
}

/// The order of the ciphers. AES-128-GCM is first: on processors with AES instructions it is the fastest, and
/// 128 bits are enough.
fn provider() -> CryptoProvider {
    use aws_lc_rs::cipher_suite as suite;
    let cipher_suites = vec![
        suite::TLS13_AES_128_GCM_SHA256,
        suite::TLS13_AES_256_GCM_SHA384,
        suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() }
}

/// A verifier that accepts one public key and no other.
#[derive(Debug)]
struct Pin {
    key: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pin {
    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        if shown == &self.key {
            return Ok(());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }

    fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig))
    }
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Self::no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pin {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Self::no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
